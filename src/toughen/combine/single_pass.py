"""One backward pass: the comparison added to the clean loss, averaged with it, or alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import MethodError
from ..schedules import Scheduled, minimum, value_at
from .base import BackwardPass, StepContext


class _SinglePass:
    reads_clean_last: ClassVar[bool] = True

    def backward_passes(self, is_last: bool, window_size: int) -> tuple[BackwardPass, ...]:
        return (BackwardPass(sync_gradients=is_last),)


@dataclass(frozen=True)
class Add(_SinglePass):
    """The clean loss plus `weight` times the comparison, in one backward pass.

    `optional_labels` leaves the clean loss out for a batch that has none (VAT, ASA's own code).
    """

    adds_regularizer: ClassVar[bool] = True
    includes_clean_loss: ClassVar[bool] = True

    weight: Scheduled = 1.0
    optional_labels: bool = False

    def __post_init__(self) -> None:
        if not minimum(self.weight) >= 0:
            raise MethodError(f"Add(weight={self.weight}): a regulariser's weight cannot be negative.")

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        clean = batch.clean()
        if clean.loss is None and self.optional_labels:
            yield self.regularizer(batch)
        else:
            yield batch.task_loss() + self.regularizer(batch)

    def regularizer(self, batch: StepContext) -> Tensor:
        """The regulariser alone, for sums of methods."""
        batch.run_search()
        weight, term = value_at(self.weight, batch.progress), batch.regularizer()
        return term if self.weight == 1.0 else weight * term


@dataclass(frozen=True)
class Average(_SinglePass):
    """`weight` of the perturbed loss and the rest of the clean one, in one backward pass."""

    includes_clean_loss: ClassVar[bool] = True

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise MethodError(f"Average(weight={self.weight}): a share lies between 0 and 1.")

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        clean = batch.task_loss()
        batch.run_search()
        yield (1 - self.weight) * clean + self.weight * batch.regularizer()


@dataclass(frozen=True)
class PerturbedOnly(_SinglePass):
    """The comparison alone."""

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        batch.run_search()
        yield batch.regularizer()
