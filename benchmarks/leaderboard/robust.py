"""Answers of a trained model on other rows and under attack: in large batches, from token ids."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from toughen.attacks.perturbed_model import AttackObjective, EmbeddingPGD, attach_perturbation
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
        y_true = labels.cpu().numpy()
        if self.task.head == "tokens":
            names = self.task.labels
            pairs = [(a[t != IGNORED], t[t != IGNORED]) for a, t in zip(answers, y_true, strict=True)]
            y_pred, true = ([[names[number] for number in pair[side]] for pair in pairs] for side in (0, 1))
            return SCORES[metric](y_pred, true)
        values = np.nan_to_num(np.asarray(answers))
        return SCORES[metric](
            values.reshape(len(y_true)) if self.task.head == "regression" else values.argmax(-1), y_true
        )


def answers_on(tested: Tested, table: Table) -> Any:
    """Return the logits of every row of a set; of token tasks the answers, padded as the set is."""
    labels = table.inputs["labels"]
    answers: Any = None
    with torch.inference_mode():
        for rows, batch in _batches(table, tested.budget):
            logits = tested.logits(batch).float()
            if tested.task.head == "tokens":
                logits = nn.functional.pad(logits.argmax(-1), (0, labels.shape[1] - logits.shape[1]))
            if answers is None:
                answers = torch.zeros(len(table), *logits.shape[1:], dtype=logits.dtype, device=logits.device)
            answers[rows] = logits
    return answers.cpu().numpy()


def attacked(
    tested: Tested, table: Table, radii: Sequence[float], steps: int, metric: str, directions: dict[int, Tensor]
) -> tuple[dict[str, list[float]], list[Any]]:
    """Scores inside growing l2 balls (PGD with FGSM's point), and under random noise of exactly that length.

    Then the answers under PGD at each radius, as `answers_on` gives them. `directions` keeps the noise of this set's
    batches by their number: it is the same for all models.
    """
    labels = table.inputs["labels"]
    answers: dict[str, list[Any]] = {"pgd": [[] for _ in radii], "noise": [[] for _ in radii]}
    order: list[Tensor] = []
    with attach_perturbation(tested) as model:  # pyright: ignore[reportArgumentType]
        for number, (rows, batch) in enumerate(_batches(table, tested.budget // 8, labelled=True)):
            pgd = EmbeddingPGD(model, AttackObjective(tested.task), batch, batch["labels"])
            if number not in directions:
                pgd.sample_direction([str(int(row)) for row in rows])
                directions[number] = pgd.direction
            pgd.direction = directions[number]
            for index, radius in enumerate(radii):
                pgd.fgsm(radius)
                pgd.pgd(radius, steps)
                answers["pgd"][index].append(_kept(tested, pgd.worst_logits, labels))
                answers["noise"][index].append(_kept(tested, pgd.noise(radius), labels))
            order.append(rows)
    places = torch.cat(order)
    y_true = labels[places]
    scores = {
        kind: [tested.score(torch.cat(parts).cpu().numpy(), y_true, metric) for parts in points]
        for kind, points in answers.items()
    }
    back = places.argsort()
    return scores, [torch.cat(parts)[back].float().cpu().numpy() for parts in answers["pgd"]]


def _kept(tested: Tested, logits: Tensor, labels: Tensor) -> Tensor:
    if tested.task.head != "tokens":
        return logits.detach().clone()
    answers = logits.detach().argmax(-1)
    return nn.functional.pad(answers, (0, labels.shape[1] - answers.shape[1]))


def rows_of(tested: Tested, answers: Any, labels: Tensor) -> list[Any]:
    """Return answers, or the labels themselves, as classes, amounts, or the tags of every row."""
    y_true, given = labels.cpu().numpy(), np.nan_to_num(np.asarray(answers))
    if tested.task.head == "tokens":
        return [row[true != IGNORED].astype(int).tolist() for row, true in zip(given, y_true, strict=True)]
    if tested.task.head == "regression":
        return given.reshape(len(y_true)).astype(float).round(3).tolist()
    return (given if given.ndim == 1 else given.argmax(-1)).astype(int).tolist()


def area(clean: float, radii: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean height of the curve from radius 0 to the last, by trapezoids."""
    x, y = np.asarray([0.0, *radii]), np.asarray([clean, *values])
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / x[-1])


def _batches(table: Table, tokens: int, labelled: bool = False) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """Yield batches of rows of like length, as many as so many tokens allow."""
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
