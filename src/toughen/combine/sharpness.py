"""The gradient at perturbed weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import BackwardPass, StepContext


@dataclass(frozen=True)
class SharpnessAware:
    """The gradient at weights moved towards a higher loss (SAM, AWP).

    A first round over the whole accumulation window finds the direction, a second gives the gradient there: the
    result does not depend on how an update is split into micro-batches or processes. `keep_clean_gradient` adds the
    first round's gradient instead of dropping it.
    """

    acts_on: ClassVar[str] = "weights"

    keep_clean_gradient: bool = False

    @property
    def num_rounds(self) -> int:
        return 2

    def backward_passes(self, is_last: bool, window_size: int) -> tuple[BackwardPass, ...]:
        first = BackwardPass(sync_gradients=is_last, counts=self.keep_clean_gradient)
        again = tuple(BackwardPass(sync_gradients=left == 0) for left in reversed(range(window_size)))
        return (first, *again) if is_last else (first,)

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        yield batch.task_loss()
        if not batch.is_last:
            return
        restore = batch.perturb_weights(self.keep_clean_gradient)
        try:
            for one in batch.accumulation_window:
                loss = one.forward_again().loss
                assert loss is not None  # the first round had labels
                yield loss
        finally:
            restore()
