"""A tiny model under attack: most labels are what it says itself, so that there is something to lose."""

from typing import Any

import numpy as np
import torch

from toughen.evaluation import Target, Victim
from toughen.tasks.spec import Task

from ..tiny import TOKENIZER, bert

TASK = Task("own", "own", "sentence", "classes", ("text",), ("bad", "good", "fair"))
BY_HAND = 32  # tokens


def sentences(count: int = 24, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{number}" for number in rng.integers(5, 100, rng.integers(3, 12))) for _ in range(count)]


def model(**changes: Any) -> Any:
    return bert(torch.float32, initializer_range=0.3, **changes).eval()


def target(count: int = 24, *, net: Any = None, task: Task = TASK, **settings: Any) -> Target:
    """Every fifth label is wrong."""
    victim = Victim(net or model(), TOKENIZER, task, max_length=BY_HAND, **settings)
    texts = sentences(count)
    logits = victim.exact([{"text": text} for text in texts])
    labels = (logits.argmax(-1) + (np.arange(count) % 5 == 4)) % 3
    rows = [{"text": text, "label": int(label)} for text, label in zip(texts, labels, strict=True)]
    return Target(victim, rows, logits, labels, samples=50)


def said(net: Any, text: str) -> int:
    """The answer to one text by itself."""
    with torch.no_grad():
        batch = TOKENIZER(text, return_tensors="pt", truncation=True, max_length=BY_HAND)
        return int(net(input_ids=batch["input_ids"]).logits.argmax())
