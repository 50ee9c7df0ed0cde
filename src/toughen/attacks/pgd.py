"""Accuracy against radius: FGSM and PGD on the word embeddings, with random noise of the same length for comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..engine.perturbation import Perturbation
from ..search import Ascent, Ball, CustomInit, Noise, Normalized, Relative, Zeros
from ..search.norms import norm
from ..sites.base import Activation
from ..tasks.spec import DataError, Task
from ..tasks.tokenising import IGNORED
from .perturbed_model import FROM_ZERO, AttackObjective, PerturbedModel, attach_perturbation
from .summary import Curve, Point
from .target import AttackScores, Target, as_answers


class EmbeddingPGD:
    """Attack one batch at increasing radii and keep the worst answers so far."""

    def __init__(
        self, model: PerturbedModel, objective: AttackObjective, batch: dict[str, Any], labels: Tensor
    ) -> None:
        self.model, self.objective, self.batch, self.labels, self.decides = model, objective, batch, labels, False
        logits, self.gradient, self.view = model.embedding_gradient(batch, objective, labels)
        self._set_best(logits)
        self.direction = torch.zeros_like(self.gradient)

    def reset(self, clean: Tensor) -> None:
        """Start from the clean logits of the evaluation: rounding in another batch must not correct an answer."""
        self.decides = True
        self._set_best(clean.to(self.gradient.device))

    def _set_best(self, clean: Tensor) -> None:
        self.worst_logits, self.worst_value = clean.clone(), self.objective.margin(clean, self.labels)
        self.fgsm_logits, self.fgsm_value = self.worst_logits.clone(), self.worst_value.clone()

    def sample_direction(self, seeds: Sequence[str]) -> None:
        """Draw a random direction for every example from its own seed, so that the batch does not matter."""
        each = len(self.gradient) // len(seeds)  # choices: several texts an example
        free = self.view.masked(torch.ones_like(self.gradient))[..., 0].bool().cpu()
        for row, seed in enumerate(seed for seed in seeds for _ in range(each)):
            words = np.frombuffer(sha256(f"{seed}/{row % each}".encode()).digest(), dtype=np.uint32)
            drawn = np.random.default_rng(words).standard_normal((int(free[row].sum()), self.gradient.shape[-1]))
            self.direction[row, free[row].to(self.gradient.device)] = torch.from_numpy(drawn).to(self.direction)
        self.direction /= norm(self.direction, 2, "example").clamp(min=1e-30)

    def fgsm(self, radius: float) -> None:
        """One step of the whole radius; its answers count for PGD too."""
        logits = self._logits_at(self._first_step(_ascent(radius, radius, 1))).detach()
        self.fgsm_logits, self.fgsm_value = self._keep_worst(logits, self.fgsm_logits, self.fgsm_value)
        self.worst_logits, self.worst_value = self._keep_worst(logits, self.worst_logits, self.worst_value)

    def pgd(self, radius: float, steps: int) -> None:
        """Ascend inside the ball; every point on the way counts. Examples that are already broken are left out."""
        alive = torch.nonzero(self.worst_value <= 0).flatten() if self.decides else torch.arange(len(self.worst_value))
        if not len(alive):
            return
        pgd = self.select(alive.to(self.worst_value.device))
        search = _ascent(radius, 2.5 * radius / steps, steps)
        here = pgd._first_step(search)
        for step in range(steps):
            logits = pgd._logits_at(here)
            pgd.worst_logits, pgd.worst_value = pgd._keep_worst(logits.detach(), pgd.worst_logits, pgd.worst_value)
            if step < steps - 1:
                gradients = torch.autograd.grad(self.objective.soft_margin(logits, pgd.labels).sum(), here.deltas)
                here.ascend(search, gradients)
        self.worst_logits[alive], self.worst_value[alive] = pgd.worst_logits, pgd.worst_value

    def select(self, rows: Tensor) -> "EmbeddingPGD":
        """The same for some of the examples."""
        some = copy(self)
        each = len(self.gradient) // len(self.worst_value)  # choices: several texts an example
        texts = (rows.view(-1, 1) * each + torch.arange(each, device=rows.device)).flatten()
        some.batch = {name: value[rows] for name, value in self.batch.items()}
        some.labels, some.worst_logits, some.worst_value = (
            self.labels[rows],
            self.worst_logits[rows],
            self.worst_value[rows],
        )
        some.gradient = self.gradient[texts]
        some.view = Activation(self.view.value[texts], None if self.view.mask is None else self.view.mask[texts])
        return some

    def noise(self, radius: float) -> Tensor:
        """The random direction, the same at every radius, at exactly that length."""
        with torch.no_grad():
            return self.model.logits(
                self.batch, Perturbation(), Noise(CustomInit(partial(self._scaled_direction, radius)))
            )

    def _scaled_direction(self, radius: float, view: Activation) -> Tensor:
        return self.direction * radius * Relative().length(view, 2, "example")

    def _first_step(self, search: Ascent) -> Perturbation:
        """After the first step, whose gradient is the same for every radius."""
        zero = torch.zeros_like(self.gradient)
        here = Perturbation(at={0: zero}, views={0: self.view})
        here.ascend(search, [self.gradient])
        return here

    def _logits_at(self, here: Perturbation) -> Tensor:
        return self.model.logits(self.batch, here, FROM_ZERO)

    def _keep_worst(self, logits: Tensor, kept: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        margin = self.objective.margin(logits, self.labels)
        worse = margin > value
        return torch.where(worse.view(-1, *[1] * (logits.dim() - 1)), logits, kept), torch.where(worse, margin, value)


def _ascent(radius: float, step: float, steps: int) -> Ascent:
    return Ascent(step, steps, Zeros(), Normalized(2, "example"), Ball(radius, 2, "example"), Relative())


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
        """Accept every task: every head has a loss to maximise."""

    def cache_key(self, target: Target) -> tuple[()]:
        return ()

    def num_items(self, target: Target) -> int:
        return len(target.rows)

    def run_items(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """Answers of examples at every radius."""
        victim, most = target.victim, target.victim.rows_with_gradient
        step = PART * most
        ranked = sorted(numbers, key=lambda number: sum(len(str(text)) for text in victim.key(target.rows[number])))
        with attach_perturbation(victim) as model:
            for start in range(0, len(ranked), step):
                part = ranked[start : start + step]
                for places, batch in victim.batches([target.rows[number] for number in part], most):
                    yield self._examples(target, model, [part[index] for index in places], batch)

    def _examples(
        self, target: Target, model: PerturbedModel, numbers: list[int], batch: dict[str, Any]
    ) -> list[dict[str, Any]]:
        labels = batch.get("labels")
        if labels is None:
            labels = torch.as_tensor(np.asarray([target.labels[i] for i in numbers]))
        pgd = EmbeddingPGD(model, AttackObjective(target.task), batch, labels.to(target.victim.model.device))
        if target.decides:
            pgd.reset(torch.as_tensor(np.asarray([target.logits[i] for i in numbers])))
        pgd.sample_direction([f"{self.seed}/{i}" for i in numbers])
        answers: dict[str, list[Any]] = {"answers": [], "fgsm": [], "noise": []}
        for radius in self._radii():
            pgd.fgsm(radius)
            fgsm = pgd.fgsm_logits
            pgd.pgd(radius, self.steps)
            noise = pgd.noise(radius)
            if noise.isnan().any():  # of NaN the first class is the largest, and nothing is ever worse
                raise DataError(
                    f"radius {radius:g}: the model's answers are no numbers that far out; give smaller radii."
                )
            for key, values in (
                ("answers", pgd.worst_logits),
                ("fgsm", fgsm),
                ("noise", noise),
            ):
                answers[key].append(_answers(target, values, labels))
        return [
            {"index": number, **{key: [point[index] for point in points] for key, points in answers.items()}}
            for index, number in enumerate(numbers)
        ]

    def summarize(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> AttackScores:
        clean = target.score(target.answers())
        points = [Point(0.0, clean, noise=clean, fgsm=clean)]
        outcomes = {"radius 0": target.outcome(target.answers())}
        for index, radius in enumerate(self._radii()):
            answers = {key: [row[key][index] for row in rows] for key in ("answers", "fgsm", "noise")}
            scores = {key: target.score(values) for key, values in answers.items()}
            points.append(Point(radius, scores["answers"], scores["noise"], scores["fgsm"]))
            outcomes[f"radius {radius:g}"] = target.outcome(answers["answers"])
            outcomes[f"noise of radius {radius:g}"] = target.outcome(answers["noise"])
        return AttackScores(outcomes, curve=Curve(points, "radius", UNIT))


def _answers(target: Target, logits: Tensor, labels: Tensor) -> list[Any]:
    if target.task.head != "tokens":
        return as_answers(target.task, logits.detach().cpu().numpy())
    # Of the words' first pieces alone, as the target keeps its labels: padding differs from batch to batch.
    return [one[y_true != IGNORED].tolist() for one, y_true in zip(logits.argmax(-1).cpu(), labels.cpu(), strict=True)]
