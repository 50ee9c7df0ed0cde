"""Accuracy against radius: FGSM and PGD on the word embeddings, with random noise of the same length for comparison."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...tasks.spec import DataError
from ..base import Attack, AttackScores, ChangedRow, Record, register_attack
from ..runner import digest
from ..summary import Curve, Point

if TYPE_CHECKING:
    from torch import Tensor

    from ..perturbed_model import PerturbedModel
    from ..target import Target

UNIT = "share of an embedding's norm"
PART = 16  # batches of examples that are sorted by length together
KINDS = ("answers", "fgsm", "noise")  # keys of a record: PGD's answers, FGSM's, those under random noise


@register_attack("embedding")
@dataclass(frozen=True)
class EmbeddingAttack(Attack):
    """FGSM and PGD on the word embeddings: accuracy against radius, and random noise of the same length.

    Projected ascent (Madry et al. 2018) inside l2 balls, where the embeddings of an example's real tokens are one
    vector. A radius of 0.01 lets the perturbation be a hundredth as long as that vector: ||delta|| <= 0.01 ||E||, both
    over all tokens but padding and special ones. FGSM is the same with one step of the full radius (Goodfellow et al.
    2015, in the l2 form of Miyato et al. 2017). A perturbation that breaks an example at one radius lies inside every
    larger ball, and counts there too; so does FGSM's point for PGD.
    """

    title = "Perturbed embeddings (PGD)"
    white_box = True

    radii: Sequence[float] = (0.005, 0.01, 0.02, 0.05, 0.1)
    """Radii of embedding: shares of the embedding's norm."""
    steps: int = 10
    """Steps of PGD."""
    seed: int = 0
    """Seed of everything that is drawn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise DataError(f"steps={self.steps}: PGD needs at least one step.")
        if not self.radii or any(not 0 <= radius < math.inf for radius in self.radii):
            raise DataError(f"radii={list(self.radii)}: give numbers of 0 or more, e.g. 0.01,0.05.")

    @property
    def settings(self) -> dict[str, Any]:
        fixed = {"step_size": "2.5 radius / steps", "norm": "l2, example"}
        return super().settings | {"radii": self._radii()} | fixed

    def _radii(self) -> list[float]:
        """Return the radii in order, without 0, which is the clean score."""
        return sorted({float(radius) for radius in self.radii} - {0.0})

    def run_items(self, target: "Target", numbers: Sequence[int]) -> Iterator[list[Record]]:
        """Yield the answers to examples at every radius."""
        from ..perturbed_model import attach_perturbation

        victim, most = target.white_box, target.white_box.rows_with_gradient
        ranked = sorted(numbers, key=lambda number: sum(len(str(text)) for text in victim.key(target.rows[number])))
        with attach_perturbation(victim) as model:
            for start in range(0, len(ranked), PART * most):
                part = ranked[start : start + PART * most]
                for indices, batch in victim.batches([target.rows[number] for number in part], most):
                    yield self._attack_batch(target, model, [part[index] for index in indices], batch)

    def _attack_batch(
        self, target: "Target", model: "PerturbedModel", numbers: list[int], batch: dict[str, Any]
    ) -> list[Record]:
        import numpy as np
        import torch

        from ..perturbed_model import AttackObjective, EmbeddingPGD

        labels = batch.get("labels")
        if labels is None:
            labels = torch.as_tensor(np.asarray([target.labels[i] for i in numbers]))
        pgd = EmbeddingPGD(model, AttackObjective(target.task), batch, labels.to(target.white_box.model.device))
        if target.task.is_single_label:
            pgd.reset(torch.as_tensor(np.asarray([target.logits[i] for i in numbers])))
        pgd.sample_direction([f"{self.seed}/{i}" for i in numbers])
        points: list[list[list[Any]]] = []  # radius, kind, row
        for radius in self._radii():
            pgd.fgsm(radius)
            fgsm = pgd.fgsm_logits
            pgd.pgd(radius, self.steps)
            noise = pgd.noise(radius)
            if noise.isnan().any():  # of NaN the first class is the largest, and nothing is ever worse
                raise DataError(f"radius {radius:g}: the model returns NaN; give smaller radii.")
            points.append([_answers(target, logits, labels) for logits in (pgd.worst_logits, fgsm, noise)])
        return [
            {
                "index": number,
                **self._identity(target, number),
                **{kind: [point[k][row] for point in points] for k, kind in enumerate(KINDS)},
            }
            for row, number in enumerate(numbers)
        ]

    def _identity(self, target: "Target", number: int) -> dict[str, Any]:
        """Return what a report needs to pair the rows of two models: their texts, short, and the right answer."""
        if not target.task.is_single_label:
            return {}
        return {"text": digest(target.victim.key(target.rows[number])), "label": int(target.labels[number])}

    def summarize(self, target: "Target", records: Sequence[Record]) -> AttackScores:
        clean = target.score(target.answers())
        points = [Point(0.0, clean, noise=clean, fgsm=clean)]
        outcomes = {"radius 0": target.outcome(target.answers())}
        for index, radius in enumerate(self._radii()):
            pgd, fgsm, noise = ([row[kind][index] for row in records] for kind in KINDS)
            points.append(Point(radius, target.score(pgd), target.score(noise), target.score(fgsm)))
            outcomes[f"radius {radius:g}"] = target.outcome(pgd)
            outcomes[f"noise of radius {radius:g}"] = target.outcome(noise)
        return AttackScores(outcomes, curve=Curve(points, "radius", UNIT))

    def changed_rows(self, target: "Target", records: Sequence[Record]) -> list[ChangedRow]:
        """Return the answers at the largest radius; the texts stay as they are."""
        return [ChangedRow(row["index"], target.rows[row["index"]], row["answers"][-1]) for row in records]


def _answers(target: "Target", logits: "Tensor", labels: "Tensor") -> list[Any]:
    from ...tasks.tokenising import IGNORED
    from ..target import as_answers

    if target.task.head != "tokens":
        return as_answers(target.task, logits.detach().cpu().numpy())
    # Of the words' first tokens alone, as the target keeps its labels: padding differs from batch to batch.
    return [one[y_true != IGNORED].tolist() for one, y_true in zip(logits.argmax(-1).cpu(), labels.cpu(), strict=True)]
