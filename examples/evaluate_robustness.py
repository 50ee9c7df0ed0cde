"""What is left of a tiny classifier under five attacks, and the texts that fooled it."""

import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from toughen.demo import run_demo, sentences
from toughen.evaluation import AttackSettings, Budget, Target, Victim, make_attacks, run_attack

run_demo.PACKAGE = "a package that is not there"  # the tiny model even where the real one is installed


def make_rows(count: int, seed: str) -> list[dict[str, object]]:
    return [{**row, "label": sentences.LABELS.index(row["label"])} for row in sentences.rows(count, seed)]


train, rows = make_rows(120, "train"), make_rows(60, "test")
with tempfile.TemporaryDirectory() as folder:
    path = run_demo.find_encoder(None, Path(folder)).folder
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(path), AutoTokenizer.from_pretrained(path)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(30):
    batch = tokenizer([row["text"] for row in train], padding=True, return_tensors="pt")
    model(**batch, labels=torch.tensor([row["label"] for row in train])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

victim = Victim(model.eval(), tokenizer, run_demo.SENTIMENT, max_length=32)
target = Target(victim, rows, victim.exact(rows), [row["label"] for row in rows])
settings = AttackSettings(budget=Budget(queries=60, words=0.3), radii=(0.05, 0.2), strengths=(0.3, 1.0))
with tempfile.TemporaryDirectory() as folder:
    for attack in make_attacks("characters,flips,neighbours,embedding,noise", settings):
        attacked = run_attack(attack, target, home=Path(folder))
        print(f"{attack.title}: clean {attacked.summary.clean.value:.2f}, at the worst {attacked.score:.2f}")
    broken = (
        line for line in (Path(folder) / "attacks" / "flips.jsonl").read_text().splitlines() if "succeeded" in line
    )
    print(next(broken, "nothing was broken"))
