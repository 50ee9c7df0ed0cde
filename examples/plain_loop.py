"""A plain PyTorch loop, plain and with SMART, on a tiny random model: the loss and what the method did."""

import torch
from transformers import BertConfig, BertForSequenceClassification

import toughen

torch.manual_seed(0)
config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=200)
model = BertForSequenceClassification(config).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

# Texts of random words; the label says whether word 7 is among them.
ids = torch.randint(5, 60, (64, 12))
data = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": (ids == 7).any(1).long()}

with toughen.smart().attach(model, seed=0) as attached:
    for epoch in range(8):
        loss = attached.backward(model, data)
        optimizer.step()
        optimizer.zero_grad()
        report = attached.report()
        print(
            f"epoch {epoch}: loss {loss:.3f}, smoothness {report['term']:.4f}, "
            f"perturbation {report['delta_relative']:.1%} of the embedding"
        )
