"""One batch on its way up: the worst answers inside a ball around its embeddings, radius after radius."""

from collections.abc import Sequence
from copy import copy
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
from .bent import FROM_ZERO, Bent, Height


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
