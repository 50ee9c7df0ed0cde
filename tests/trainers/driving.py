"""Data and Trainer settings for the drivers' tests."""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainingArguments

import toughen
from toughen.registry import get_factory

from ..tiny import LIKE_TYPOS, SMALL_VOCABULARY, other_tokens


def texts(number: int = 16, length: int = 10) -> list[dict[str, Tensor]]:
    random = torch.Generator().manual_seed(5)
    rows = []
    for _ in range(number):
        real = int(torch.randint(4, length + 1, (), generator=random))
        mask = (torch.arange(length) < real).long()
        ids = torch.randint(5, SMALL_VOCABULARY, (length,), generator=random) * mask
        label = torch.randint(0, 3, (), generator=random)
        rows.append({"input_ids": ids, "attention_mask": mask, "labels": label})
    return rows


def language(number: int = 16) -> list[dict[str, Tensor]]:
    """Texts whose labels are their own tokens, padding left out: micro-batches differ in their number of labels."""
    return [{**row, "labels": row["input_ids"].masked_fill(row["attention_mask"] == 0, -100)} for row in texts(number)]


def collated(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}


def settings(folder: Path, kind: type[TrainingArguments] = TrainingArguments, **changes: Any) -> Any:
    given = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": 3,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 7,
    }
    return kind(**{**given, **changes})


class Gradients(TrainerCallback):
    """Keeps the gradients as the optimizer sees them."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Tensor]] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        named = model.named_parameters()
        self.seen.append({n.removeprefix("module."): p.grad.clone() for n, p in named if p.grad is not None})


def made(name: str) -> Any:
    """A method by name, with noise that depends on each example alone."""
    make = get_factory(name)
    if "init" in inspect.signature(make).parameters:
        return make(init=lambda view: 0.02 * torch.sin(1e3 * view.value))
    return make(candidates=other_tokens, noise=0.0) if name == "words" else make()


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert not different


ALL = [name for name in toughen.available() if name not in LIKE_TYPOS]
