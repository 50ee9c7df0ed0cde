"""A model with a perturbation at its word embeddings, by the site and searches of the engine; FGSM and PGD with it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..engine.perturbation import Injector, Perturbation
from ..engine.validation import special_ids
from ..internal.rng import NoiseGenerators
from ..search import Ascent, Ball, CustomInit, Noise, Normalized, Relative, Zeros, no_perturbation
from ..search.base import Search
from ..search.norms import norm
from ..sites import WordEmbedding
from ..sites.base import Activation
from ..tasks.spec import Task
from ..tasks.tokenising import IGNORED
from .victim import LabelScorer, Victim

FROM_ZERO = Ascent(1.0, 1, Zeros())  # starts a perturbation at zero that requires a gradient


class PerturbedModel:
    """Forward passes under a perturbation, which leaves padding and special tokens alone."""

    def __init__(self, victim: Victim, injector: Injector) -> None:
        self.victim, self.injector = victim, injector

    def logits(self, batch: Mapping[str, Any], perturbation: Perturbation, search: Search) -> Tensor:
        """Return the logits of one pass; the search starts a perturbation that has no value yet."""
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        self.injector.search = search
        self.injector.set_batch(inputs)
        self.injector.current = perturbation
        try:
            return self.victim.logits(inputs).float()
        finally:
            self.injector.current = None

    def embedding_gradient(
        self, batch: Mapping[str, Any], objective: Callable[[Tensor, Tensor], Tensor], labels: Tensor
    ) -> tuple[Tensor, Tensor, Activation]:
        """Return the clean logits, the gradient of the objective at the embeddings, and the embeddings."""
        start = Perturbation()
        logits = self.logits(batch, start, FROM_ZERO)
        (gradient,) = torch.autograd.grad(objective(logits, labels).sum(), start.deltas)
        return logits.detach(), gradient, start.views[0]


@contextmanager
def attach_perturbation(victim: Victim) -> Generator[PerturbedModel]:
    """Attach the site to the model, and remove it at the end."""
    injector = Injector(no_perturbation(), NoiseGenerators(0), special_ids(victim.model, victim.tokenizer))
    detach = WordEmbedding().attach(victim.model, injector)
    try:
        yield PerturbedModel(victim, injector)
    finally:
        detach()


class AttackObjective:
    """Measure how wrong each answer is: the ascent maximises `soft_margin`, and `margin` decides which answer is worse.

    For classes both are margins between wrong and right classes. A margin keeps its gradient where the cross-entropy of
    a confident model has none, and `margin` above 0 is a wrong answer. For other heads both are the example's loss.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.scorer = task, LabelScorer(task)
        self._tables: dict[int, Tensor] = {}  # by the number of classes; every step of an ascent needs one

    def soft_margin(self, logits: Tensor, labels: Tensor) -> Tensor:
        correct = self._correct_classes(logits, labels)
        if correct is None:
            return self._loss(logits, labels)
        wrong = logits.masked_fill(correct, -torch.inf).logsumexp(-1)
        return wrong - logits.masked_fill(~correct, -torch.inf).logsumexp(-1)

    def margin(self, logits: Tensor, labels: Tensor) -> Tensor:
        correct = self._correct_classes(logits, labels)
        if correct is None:
            return self._loss(logits, labels)
        wrong = logits.masked_fill(correct, -torch.inf).amax(-1)
        return wrong - logits.masked_fill(~correct, -torch.inf).amax(-1)

    def _correct_classes(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        if not self.task.is_single_label:
            return None
        classes = logits.shape[-1]
        if classes not in self._tables:
            names = range(max(len(self.task.labels), classes))
            rows = [torch.from_numpy(self.scorer.correct_mask(label, classes)) for label in names]
            self._tables[classes] = torch.stack(rows).to(logits.device)
        return self._tables[classes][labels]

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.task.head == "regression":
            return (logits.reshape(len(logits)) - labels.reshape(len(labels)).float()) ** 2
        if self.task.head == "multilabel":
            return F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none").sum(-1)
        each = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
        return each.sum(-1) / labels.ne(IGNORED).sum(-1).clamp(min=1)


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
