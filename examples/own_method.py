"""A method of one's own in one file: the task loss under noise at layer 1, added to the clean loss."""

import torch
from transformers import BertConfig, BertForSequenceClassification

import toughen
from toughen import Method
from toughen.combine.single_pass import Add
from toughen.compare import TaskLoss
from toughen.search import Noise, Normal
from toughen.sites import Hidden


@toughen.register_method("noisy-layer")
def noisy_layer(layer: int = 1, size: float = 0.1, weight: float = 0.5) -> Method:
    """The loss under Gaussian noise of `size` times the layer's own size."""
    return Method(site=Hidden(layer), search=Noise(Normal(size)), compare=TaskLoss(), combine=Add(weight))


torch.manual_seed(0)
config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=200)
model = BertForSequenceClassification(config).train()
ids = torch.randint(5, 60, (8, 12))
batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[:, 0] % 2}

method = toughen.create_method("noisy-layer", size=0.2)
print(method)
with method.attach(model, seed=0) as attached:
    print(f"loss {attached.backward(model, batch):.4f}")
