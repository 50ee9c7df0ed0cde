"""Accuracy against radius: FGSM and PGD on the word embeddings, and random noise of the same length beside them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..tasks.spec import DataError, Task
from ..tasks.tokenising import IGNORED
from .bent import Bent, Height, bent
from .climber import Climber
from .target import Sum, Target, as_answers

RADII = (0.005, 0.01, 0.02, 0.05, 0.1)
UNIT = "share of an embedding's norm"
PART = 16  # batches' worth of examples between two savings


@dataclass(frozen=True)
class EmbeddingAttack:
    """Projected ascent (Madry et al. 2018) inside l2 balls, an example's embeddings of real tokens being one vector.

    A radius of 0.01 lets the perturbation be a hundredth as long as that vector: ||delta|| <= 0.01 ||E||, both over all
    tokens but padding and special ones. FGSM is the same with one step of the full radius (Goodfellow et al. 2015, in
    the l2 form of Miyato et al. 2017). What breaks an example at one radius lies inside every larger ball, and counts
    there too; so does FGSM's point for PGD.
    """

    radii: Sequence[float] = RADII
    steps: int = 10
    seed: int = 0
    name: str = "embedding"
    kind: str = "embedding"
    title: str = "Perturbed embeddings (PGD)"
    examples: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise DataError(f"steps={self.steps}: PGD needs at least one step.")
        if not self.radii or any(not 0 <= radius < math.inf for radius in self.radii):
            raise DataError(f"radii={list(self.radii)}: give numbers of 0 or more, e.g. 0.01,0.05.")

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "radii": self._radii(),
            "steps": self.steps,
            "step_size": "2.5 radius / steps",
            "norm": "l2, example",
            "seed": self.seed,
        }

    def _radii(self) -> list[float]:
        """In order, and without 0, which is the clean score."""
        return sorted({float(radius) for radius in self.radii} - {0.0})

    def check(self, task: Task) -> None:
        """Every head has a loss to climb."""

    def facts(self, target: Target) -> tuple[()]:
        return ()

    def pieces(self, target: Target) -> int:
        return len(target.rows)

    def work(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """Answers of examples at every radius."""
        victim, most = target.victim, target.victim.rows_with_gradient
        step = PART * most
        ranked = sorted(numbers, key=lambda number: sum(len(str(text)) for text in victim.key(target.rows[number])))
        with bent(victim) as model:
            for start in range(0, len(ranked), step):
                part = ranked[start : start + step]
                for places, batch in victim.batches([target.rows[number] for number in part], most):
                    yield self._examples(target, model, [part[place] for place in places], batch)

    def _examples(self, target: Target, model: Bent, numbers: list[int], batch: dict[str, Any]) -> list[dict[str, Any]]:
        labels = batch.get("labels")
        if labels is None:
            labels = torch.as_tensor(np.asarray([target.labels[i] for i in numbers]))
        climber = Climber(model, Height(target.task), batch, labels.to(target.victim.model.device))
        if target.decides:
            climber.begin(torch.as_tensor(np.asarray([target.logits[i] for i in numbers])))
        climber.aim([f"{self.seed}/{i}" for i in numbers])
        found: dict[str, list[Any]] = {"answers": [], "fgsm": [], "noise": []}
        for radius in self._radii():
            climber.fgsm(radius)
            fgsm = climber.once
            climber.pgd(radius, self.steps)
            noise = climber.noise(radius)
            if noise.isnan().any():  # of NaN the first class is the largest, and nothing is ever worse
                raise DataError(
                    f"radius {radius:g}: the model's answers are no numbers that far out; give smaller radii."
                )
            for key, values in (
                ("answers", climber.worst),
                ("fgsm", fgsm),
                ("noise", noise),
            ):
                found[key].append(_answers(target, values, labels))
        return [
            {"index": number, **{key: [point[place] for point in points] for key, points in found.items()}}
            for place, number in enumerate(numbers)
        ]

    def sum_up(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> Sum:
        points = [{"x": 0.0, **target.score(target.answers())}]
        points[0] |= {f"{name}{end}": points[0][key] for name in ("noise", "fgsm") for end, key in _ENDS}
        outcomes = {"radius 0": target.outcome(target.answers())}
        for place, radius in enumerate(self._radii()):
            found = {key: [row[key][place] for row in rows] for key in ("answers", "fgsm", "noise")}
            point = {"x": radius, **target.score(found["answers"])}
            for name in ("noise", "fgsm"):
                scored = target.score(found[name])
                point |= {f"{name}{end}": scored[key] for end, key in _ENDS}
            points.append(point)
            outcomes[f"radius {radius:g}"] = target.outcome(found["answers"])
            outcomes[f"noise of radius {radius:g}"] = target.outcome(found["noise"])
        return Sum({"curve": {"axis": "radius", "unit": UNIT, "points": points}}, outcomes)


_ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def _answers(target: Target, logits: Tensor, labels: Tensor) -> list[Any]:
    if target.task.head != "tokens":
        return as_answers(target.task, logits.detach().cpu().numpy())
    # Of the words' first pieces alone, as the target keeps its labels: padding differs from batch to batch.
    return [one[told != IGNORED].tolist() for one, told in zip(logits.argmax(-1).cpu(), labels.cpu(), strict=True)]
