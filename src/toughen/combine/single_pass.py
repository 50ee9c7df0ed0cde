"""One backward pass: the comparison added to the clean loss, averaged with it, or alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ..errors import MethodError
from ..schedules import Scheduled, minimum, value_at
from .base import BackwardPass, StepContext


@dataclass(frozen=True)
class Add:
    """The clean loss plus `weight` times the comparison, in one backward pass.

    `optional_labels` leaves the clean loss out for a batch that has none (VAT).
    """

    weight: Scheduled = 1.0
    optional_labels: bool = False

    def __post_init__(self) -> None:
        if not minimum(self.weight) >= 0:
            raise MethodError(f"Add(weight={self.weight}): a regulariser's weight cannot be negative.")

    def backward_passes(self, last: bool, window: int) -> tuple[BackwardPass, ...]:
        return (BackwardPass(sync=last),)

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        clean = batch.clean()
        if clean.loss is None and self.optional_labels:
            yield self.added(batch)
        else:
            yield batch.task_loss() + self.added(batch)

    def added(self, batch: StepContext) -> Tensor:
        """The regulariser alone, for sums of methods."""
        batch.find()
        return value_at(self.weight, batch.clock) * batch.term()


@dataclass(frozen=True)
class Average:
    """`weight` of the perturbed loss and the rest of the clean one, in one backward pass."""

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise MethodError(f"Average(weight={self.weight}): a share lies between 0 and 1.")

    def backward_passes(self, last: bool, window: int) -> tuple[BackwardPass, ...]:
        return (BackwardPass(sync=last),)

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        clean = batch.task_loss()
        batch.find()
        yield (1 - self.weight) * clean + self.weight * batch.term()


@dataclass(frozen=True)
class PerturbedOnly:
    """The comparison alone."""

    def backward_passes(self, last: bool, window: int) -> tuple[BackwardPass, ...]:
        return (BackwardPass(sync=last),)

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        batch.find()
        yield batch.term()
