"""A training loop whose robust steps are CUDA graphs on a GPU; on a CPU they run eagerly and say so.

python examples/fast_step.py
"""

import torch
from transformers import BertConfig, BertForSequenceClassification

import toughen
from toughen.cuda_graphs import prefetch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = BertConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100, num_labels=2
)
model = BertForSequenceClassification(config).to(device).train()


def batches(count: int, length: int = 16) -> list[dict[str, torch.Tensor]]:
    """The label of a text is whether its second token is in the upper half of the vocabulary."""
    ids = torch.randint(3, 100, (count, 8, length))
    return [
        {"input_ids": each, "attention_mask": torch.ones_like(each), "labels": (each[:, 1] > 50).long()} for each in ids
    ]


with toughen.freelb().attach(model) as attached:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = attached.capture(model)
    for batch in prefetch(batches(20), device):
        with torch.autocast(device, torch.bfloat16):
            loss = step(batch)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {float(loss):.3f}; steps {step.steps}; {step.obstacle or 'captured'}")
    step.close()
