"""Adversarial self-attention on a tiny random model: train, see what the adversary hides, save the model alone."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification

import toughen

torch.manual_seed(0)
config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=200)
model = BertForSequenceClassification(config).train()

# Texts of random words; the label says whether word 7 is among them.
ids = torch.randint(5, 40, (64, 12))
data = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": (ids == 7).any(1).long()}

with toughen.asa(tau=0.2, adversary_rate=3.0).attach(model, seed=0) as attached:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)  # after attach: it has the adversary's weights too
    for epoch in range(30):
        loss = attached.backward(model, data)
        optimizer.step()
        optimizer.zero_grad()
        report = attached.report()
        if epoch % 5 == 4:
            print(
                f"epoch {epoch}: loss {loss:.3f}, divergence {report['divergence']:.4f}, visible {report['budget']:.1%}"
            )
    hidden = ~torch.stack(list(attached.attention_masks(data, sample=True).values()))
    print(f"hidden in a draw: {hidden.float().mean():.1%} of all pairs")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = BertForSequenceClassification.from_pretrained(folder)
    print("weights of the adversary in what was saved:", sum("adversary" in key for key in again.state_dict()))
