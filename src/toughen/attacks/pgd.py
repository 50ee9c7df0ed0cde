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
from .perturbed_model import FROM_ZERO, Bent, Height, bent
from .target import Sum, Target, as_answers


class Climber:
    """One batch: the worst answers found so far, by radius after radius."""

    def __init__(self, model: Bent, height: Height, batch: dict[str, Any], labels: Tensor) -> None:
        self.model, self.height, self.batch, self.labels, self.decides = model, height, batch, labels, False
        logits, self.slope, self.view = model.slope(batch, height, labels)
        self._from(logits)
        self.direction = torch.zeros_like(self.slope)

    def begin(self, clean: Tensor) -> None:
        """Begin with the clean answers as they were told before: rounding in another batch must not mend one."""
        self.decides = True
        self._from(clean.to(self.slope.device))

    def _from(self, clean: Tensor) -> None:
        self.worst, self.top = clean.clone(), self.height.hard(clean, self.labels)
        self.once, self.once_top = self.worst.clone(), self.top.clone()

    def aim(self, seeds: Sequence[str]) -> None:
        """A random direction for every example, from its own seed: no matter which others share the batch."""
        each = len(self.slope) // len(seeds)  # choices: several texts an example
        free = self.view.masked(torch.ones_like(self.slope))[..., 0].bool().cpu()
        for row, seed in enumerate(seed for seed in seeds for _ in range(each)):
            words = np.frombuffer(sha256(f"{seed}/{row % each}".encode()).digest(), dtype=np.uint32)
            drawn = np.random.default_rng(words).standard_normal((int(free[row].sum()), self.slope.shape[-1]))
            self.direction[row, free[row].to(self.slope.device)] = torch.from_numpy(drawn).to(self.direction)
        self.direction /= norm(self.direction, 2, "example").clamp(min=1e-30)

    def fgsm(self, radius: float) -> None:
        """One step of the whole radius; its answers count for PGD too."""
        logits = self._at(self._stepped(_search(radius, radius, 1))).detach()
        self.once, self.once_top = self._worse(logits, self.once, self.once_top)
        self.worst, self.top = self._worse(logits, self.worst, self.top)

    def pgd(self, radius: float, steps: int) -> None:
        """Climb inside the ball; every point on the way counts. Who is broken already stays so, and is left out."""
        alive = torch.nonzero(self.top <= 0).flatten() if self.decides else torch.arange(len(self.top))
        if not len(alive):
            return
        climber = self._only(alive.to(self.top.device))
        search = _search(radius, 2.5 * radius / steps, steps)
        here = climber._stepped(search)
        for step in range(steps):
            logits = climber._at(here)
            climber.worst, climber.top = climber._worse(logits.detach(), climber.worst, climber.top)
            if step < steps - 1:
                slopes = torch.autograd.grad(self.height.smooth(logits, climber.labels).sum(), here.deltas)
                here.ascend(search, slopes)
        self.worst[alive], self.top[alive] = climber.worst, climber.top

    def _only(self, rows: Tensor) -> "Climber":
        """The same for some of the examples."""
        some = copy(self)
        each = len(self.slope) // len(self.top)  # choices: several texts an example
        texts = (rows.view(-1, 1) * each + torch.arange(each, device=rows.device)).flatten()
        some.batch = {name: value[rows] for name, value in self.batch.items()}
        some.labels, some.worst, some.top = self.labels[rows], self.worst[rows], self.top[rows]
        some.slope = self.slope[texts]
        some.view = Activation(self.view.value[texts], None if self.view.mask is None else self.view.mask[texts])
        return some

    def noise(self, radius: float) -> Tensor:
        """The random direction, the same at every radius, at exactly that length."""
        with torch.no_grad():
            return self.model.logits(self.batch, Perturbation(), Noise(CustomInit(partial(self._sphere, radius))))

    def _sphere(self, radius: float, view: Activation) -> Tensor:
        return self.direction * radius * Relative().length(view, 2, "example")

    def _stepped(self, search: Ascent) -> Perturbation:
        """After the first step, whose gradient is the same for every radius."""
        zero = torch.zeros_like(self.slope)
        here = Perturbation(at={0: zero}, views={0: self.view})
        here.ascend(search, [self.slope])
        return here

    def _at(self, here: Perturbation) -> Tensor:
        return self.model.logits(self.batch, here, FROM_ZERO)

    def _worse(self, logits: Tensor, kept: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        hard = self.height.hard(logits, self.labels)
        worse = hard > top
        return torch.where(worse.view(-1, *[1] * (logits.dim() - 1)), logits, kept), torch.where(worse, hard, top)


def _search(radius: float, step: float, steps: int) -> Ascent:
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
