"""What a trained model does on other rows and under attack: in large batches, from token ids."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from toughen.attacks.perturbed_model import AttackObjective, attach_perturbation
from toughen.attacks.pgd import EmbeddingPGD
from toughen.tasks.spec import Task

from .packed import IGNORED, Material, Table
from .scoring import SCORES

TOKENS = {"cuda": 2**17, "cpu": 2**12}  # of a batch without gradients; an eighth with them


class Tested:
    """A model and its task, as the library's attacks want them, without texts."""

    def __init__(self, model: nn.Module, task: Task, material: Material) -> None:
        self.model, self.task, self.tokenizer = model, task, material.tokenizer
        self.budget = TOKENS.get(material.device.type, TOKENS["cpu"])
        self.device = material.device

    def logits(self, batch: Mapping[str, Tensor]) -> Tensor:
        return self.model(**batch).logits

    def score(self, answers: Any, labels: Tensor, metric: str) -> float:
        """Answers are logits, or class numbers of tokens."""
        told = labels.cpu().numpy()
        if self.task.head == "tokens":
            names = self.task.labels
            pairs = [(a[t != IGNORED], t[t != IGNORED]) for a, t in zip(answers, told, strict=True)]
            found, true = ([[names[number] for number in pair[side]] for pair in pairs] for side in (0, 1))
            return SCORES[metric](found, true)
        values = np.nan_to_num(np.asarray(answers))
        return SCORES[metric](values.reshape(len(told)) if self.task.head == "regression" else values.argmax(-1), told)


def answers_on(tested: Tested, table: Table) -> Any:
    """Logits of every row of a set; of token tasks the answers, padded as the set is."""
    labels = table.inputs["labels"]
    whole: Any = None
    with torch.inference_mode():
        for rows, batch in _batches(table, tested.budget):
            found = tested.logits(batch).float()
            if tested.task.head == "tokens":
                found = nn.functional.pad(found.argmax(-1), (0, labels.shape[1] - found.shape[1]))
            if whole is None:
                whole = torch.zeros(len(table), *found.shape[1:], dtype=found.dtype, device=found.device)
            whole[rows] = found
    return whole.cpu().numpy()


def attacked(
    tested: Tested, table: Table, radii: Sequence[float], steps: int, metric: str, directions: dict[int, Tensor]
) -> dict[str, list[float]]:
    """Scores inside growing l2 balls (PGD with FGSM's point), and under random noise of exactly that length.

    `directions` keeps the noise of this set's batches by their number: it is the same for all models.
    """
    labels = table.inputs["labels"]
    found: dict[str, list[Any]] = {"pgd": [[] for _ in radii], "noise": [[] for _ in radii]}
    order: list[Tensor] = []
    with attach_perturbation(tested) as bending:  # pyright: ignore[reportArgumentType]
        for number, (rows, batch) in enumerate(_batches(table, tested.budget // 8, labelled=True)):
            told = batch["labels"]
            pgd = EmbeddingPGD(bending, AttackObjective(tested.task), batch, told)
            if tested.task.is_single_label:
                pgd.reset(pgd.worst_logits)
            if number not in directions:
                pgd.sample_direction([str(int(row)) for row in rows])
                directions[number] = pgd.direction
            pgd.direction = directions[number]
            for place, radius in enumerate(radii):
                pgd.fgsm(radius)
                pgd.pgd(radius, steps)
                found["pgd"][place].append(_kept(tested, pgd.worst_logits, labels))
                found["noise"][place].append(_kept(tested, pgd.noise(radius), labels))
            order.append(rows)
    told = labels[torch.cat(order)]
    return {
        kind: [tested.score(torch.cat(parts).cpu().numpy(), told, metric) for parts in points]
        for kind, points in found.items()
    }


def _kept(tested: Tested, logits: Tensor, labels: Tensor) -> Tensor:
    if tested.task.head != "tokens":
        return logits.detach().clone()
    said = logits.detach().argmax(-1)
    return nn.functional.pad(said, (0, labels.shape[1] - said.shape[1]))


def area(clean: float, radii: Sequence[float], values: Sequence[float]) -> float:
    """The mean height of the curve from radius 0 to the last, by trapezoids."""
    x, y = np.asarray([0.0, *radii]), np.asarray([clean, *values])
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / x[-1])


def _batches(table: Table, tokens: int, labelled: bool = False) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """Rows of like length together, as many as so many tokens allow."""
    device = table.inputs["input_ids"].device
    texts = table.inputs["input_ids"][0].numel() // table.inputs["input_ids"].shape[-1]
    ranked = np.argsort(table.lengths, kind="stable")[::-1].copy()
    start = 0
    while start < len(ranked):
        length = -(-int(table.lengths[ranked[start]]) // 8) * 8
        length = min(length, table.inputs["input_ids"].shape[-1])
        rows = torch.from_numpy(ranked[start : start + max(1, tokens // (length * texts))]).to(device)
        batch = table.take(rows, length)
        yield rows, batch if labelled else {name: value for name, value in batch.items() if name != "labels"}
        start += len(rows)
