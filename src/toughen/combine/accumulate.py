"""A backward pass at every point of the ascent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import MethodError
from .base import BackwardPass, StepContext


@dataclass(frozen=True)
class Accumulate:
    """A backward pass at every point of the ascent; its gradient serves the weights and the perturbation (FreeLB).

    `average` divides by the number of passes; ParaGen's code sums.
    """

    makes_clean_pass: ClassVar[bool] = False
    ascends_between_passes: ClassVar[bool] = True

    passes: int
    average: bool = True

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise MethodError(f"Accumulate(passes={self.passes}): at least one pass is needed.")

    def backward_passes(self, is_last: bool, window_size: int) -> tuple[BackwardPass, ...]:
        return tuple(BackwardPass(sync_gradients=is_last and left == 0) for left in reversed(range(self.passes)))

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        for left in reversed(range(self.passes)):
            yield batch.regularizer() / (self.passes if self.average else 1)
            if left:
                batch.ascend()
