"""Several updates of the same batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import MethodError
from .base import BackwardPass, StepContext


@dataclass(frozen=True)
class FreeReplay:
    """The same update several times, with an optimizer step and an ascent step between two of them (FreeAT)."""

    makes_clean_pass: ClassVar[bool] = False
    ascends_between_passes: ClassVar[bool] = True

    passes: int

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise MethodError(f"FreeReplay(passes={self.passes}): at least one pass is needed.")

    @property
    def num_rounds(self) -> int:
        return self.passes

    def backward_passes(self, is_last: bool, window_size: int) -> tuple[BackwardPass, ...]:
        first = BackwardPass(
            sync_gradients=is_last, optimizer_step=is_last and self.passes > 1, counts=self.passes == 1
        )
        if not is_last:
            return (first,)
        rest = [
            BackwardPass(
                sync_gradients=left == 0,
                optimizer_step=left == 0 and round < self.passes - 1,
                counts=round == self.passes - 1,
            )
            for round in range(1, self.passes)
            for left in reversed(range(window_size))
        ]
        return (first, *rest)

    def __call__(self, batch: StepContext) -> Iterator[Tensor]:
        yield batch.regularizer()
        if not batch.is_last:
            return
        for _ in range(1, self.passes):
            for one in batch.accumulation_window:
                one.ascend()
                yield one.regularizer()
