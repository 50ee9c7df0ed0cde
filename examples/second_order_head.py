"""Put a second-order head on a backbone, train it, save it, and load it with the Auto classes.

The task needs pairs of words, not single ones: the label says whether two marked words occur together. The backbone is
tiny and random, so this runs in seconds and offline; with a real one, give its name: second_order("roberta-base", 2).
"""

import tempfile

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel

from toughen.heads import second_order

torch.manual_seed(0)
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
backbone = BertModel(BertConfig(vocab_size=50, **size))
model = second_order(backbone, id2label={0: "apart", 1: "together"}, q=16, k=8, dropout=0.1)
head = sum(parameter.numel() for parameter in model.classifier.parameters())
print(f"{type(model).__name__}: {head} parameters in the head, {model.num_parameters()} in all")


def batch(rows: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(10, 50, (rows, 12))
    ids[:, 0] = 2  # the class token
    for word, column in ((7, 3), (8, 6)):
        ids[:, column] = torch.where(torch.rand(rows) < 0.7, word, ids[:, column])
    labels = ((ids == 7).any(1) & (ids == 8).any(1)).long()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model.train()
for step in range(1, 81):
    loss = model(**batch(32)).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f}")

model.eval()
held_out = batch(256)
with torch.no_grad():
    logits = model(**held_out).logits
print(f"accuracy on new examples: {(logits.argmax(1) == held_out['labels']).float().mean():.2f}")

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    loaded = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        same = torch.equal(loaded(**held_out).logits, logits)
print(f"saved, loaded as {type(loaded).__name__}, same logits to the bit: {same}")
