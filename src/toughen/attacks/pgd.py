"""FGSM and PGD on the word embeddings of one batch, and random noise of the same length."""

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
from .perturbed_model import FROM_ZERO, AttackObjective, PerturbedModel


class EmbeddingPGD:
    """Attack one batch at increasing radii and keep the worst logits so far."""

    def __init__(
        self, model: PerturbedModel, objective: AttackObjective, batch: dict[str, Any], labels: Tensor
    ) -> None:
        self.model, self.objective, self.batch, self.labels = model, objective, batch, labels
        logits, self.gradient, self.view = model.embedding_gradient(batch, objective.soft_margin, labels)
        self.reset(logits)
        self.direction = torch.zeros_like(self.gradient)

    def reset(self, clean: Tensor) -> None:
        """Start from clean logits; with those of the evaluation, rounding in this batch corrects no answer."""
        self.worst_logits = clean.to(self.gradient.device, copy=True)
        self.worst_value = self.objective.margin(self.worst_logits, self.labels)
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
        """Make one step of the full radius; its answers count for PGD too."""
        logits = self._logits_at(self._first_step(_ascent(radius, radius, 1))).detach()
        self.fgsm_logits, self.fgsm_value = self._keep_worst(logits, self.fgsm_logits, self.fgsm_value)
        self.worst_logits, self.worst_value = self._keep_worst(logits, self.worst_logits, self.worst_value)

    def pgd(self, radius: float, steps: int) -> None:
        """Ascend inside the ball; every point on the way counts. Examples that are already broken are left out."""
        single = self.objective.task.is_single_label
        alive = torch.nonzero(self.worst_value <= 0).flatten() if single else torch.arange(len(self.worst_value))
        if not len(alive):
            return
        pgd = self.select(alive.to(self.worst_value.device))
        search = _ascent(radius, 2.5 * radius / steps, steps)
        perturbation = pgd._first_step(search)
        for step in range(steps):
            logits = pgd._logits_at(perturbation)
            pgd.worst_logits, pgd.worst_value = pgd._keep_worst(logits.detach(), pgd.worst_logits, pgd.worst_value)
            if step < steps - 1:
                gradients = torch.autograd.grad(
                    self.objective.soft_margin(logits, pgd.labels).sum(), perturbation.deltas
                )
                perturbation.ascend(search, gradients)
        self.worst_logits[alive], self.worst_value[alive] = pgd.worst_logits, pgd.worst_value

    def select(self, rows: Tensor) -> "EmbeddingPGD":
        """Return the attack on some of the examples."""
        some = copy(self)
        each = len(self.gradient) // len(self.worst_value)  # choices: several texts an example
        texts = (rows.view(-1, 1) * each + torch.arange(each, device=rows.device)).flatten()
        some.batch = {name: value[rows] for name, value in self.batch.items()}
        some.labels = self.labels[rows]
        some.worst_logits, some.worst_value = self.worst_logits[rows], self.worst_value[rows]
        some.gradient = self.gradient[texts]
        some.view = Activation(self.view.value[texts], None if self.view.mask is None else self.view.mask[texts])
        return some

    def noise(self, radius: float) -> Tensor:
        """Return the logits under the random direction, the same at every radius, at exactly that length."""
        with torch.no_grad():
            return self.model.logits(
                self.batch, Perturbation(), Noise(CustomInit(partial(self._scaled_direction, radius)))
            )

    def _scaled_direction(self, radius: float, view: Activation) -> Tensor:
        return self.direction * radius * Relative().length(view, 2, "example")

    def _first_step(self, search: Ascent) -> Perturbation:
        """Return the perturbation after the first step, whose gradient is the same for every radius."""
        zero = torch.zeros_like(self.gradient)
        perturbation = Perturbation(at={0: zero}, views={0: self.view})
        perturbation.ascend(search, [self.gradient])
        return perturbation

    def _logits_at(self, perturbation: Perturbation) -> Tensor:
        return self.model.logits(self.batch, perturbation, FROM_ZERO)

    def _keep_worst(self, logits: Tensor, kept: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        margin = self.objective.margin(logits, self.labels)
        worse = margin > value
        return torch.where(worse.view(-1, *[1] * (logits.dim() - 1)), logits, kept), torch.where(worse, margin, value)


def _ascent(radius: float, step: float, steps: int) -> Ascent:
    return Ascent(step, steps, Zeros(), Normalized(2, "example"), Ball(radius, 2, "example"), Relative())
