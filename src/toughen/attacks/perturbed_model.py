"""A model with a perturbation at its word embeddings, by the site and searches of the engine."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..engine.perturbation import Injector, Perturbation
from ..engine.validation import special_ids
from ..internal.rng import NoiseGenerators
from ..search import Ascent, Zeros, no_perturbation
from ..search.base import Search
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
