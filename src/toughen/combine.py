"""HOW the comparison enters the update.

A Combine is a generator of losses. Its driver back-propagates each loss before it asks for the next, so what stands
after a `yield` runs after backward: FreeLB reads the perturbation's gradient there, SAM moves the weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from .errors import MethodError
from .parts import Pass, Turn
from .schedule import Scheduled, lowest, now


@dataclass(frozen=True)
class Add:
    """The clean loss plus `weight` times the comparison, in one backward pass.

    `optional_labels` leaves the clean loss out for a batch that has none (VAT).
    """

    weight: Scheduled = 1.0
    optional_labels: bool = False

    def __post_init__(self) -> None:
        if not lowest(self.weight) >= 0:
            raise MethodError(f"Add(weight={self.weight}): a regulariser's weight cannot be negative.")

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        return (Turn(sync=last),)

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        clean = batch.clean()
        if clean.loss is None and self.optional_labels:
            yield self.added(batch)
        else:
            yield batch.task_loss() + self.added(batch)

    def added(self, batch: Pass) -> Tensor:
        """The regulariser alone, for sums of methods."""
        batch.find()
        return now(self.weight, batch.clock) * batch.term()


@dataclass(frozen=True)
class Average:
    """`weight` of the perturbed loss and the rest of the clean one, in one backward pass."""

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise MethodError(f"Average(weight={self.weight}): a share lies between 0 and 1.")

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        return (Turn(sync=last),)

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        clean = batch.task_loss()
        batch.find()
        yield (1 - self.weight) * clean + self.weight * batch.term()


@dataclass(frozen=True)
class Replace:
    """The comparison alone."""

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        return (Turn(sync=last),)

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        batch.find()
        yield batch.term()


@dataclass(frozen=True)
class Accumulate:
    """A backward pass at every point of the ascent; its gradient serves the weights and the perturbation (FreeLB).

    `average` divides by the number of passes; ParaGen's code sums.
    """

    passes: int
    average: bool = True

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise MethodError(f"Accumulate(passes={self.passes}): at least one pass is needed.")

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        return tuple(Turn(sync=last and left == 0) for left in reversed(range(self.passes)))

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        for left in reversed(range(self.passes)):
            yield batch.term() / (self.passes if self.average else 1)
            if left:
                batch.climb()


@dataclass(frozen=True)
class Sharpen:
    """The gradient at weights moved uphill (SAM, AWP).

    A first round over the whole accumulation window finds the direction, a second gives the gradient there: the
    result does not depend on how an update is split into micro-batches or processes. `keep_clean` adds the first
    round's gradient instead of dropping it.
    """

    keep_clean: bool = False

    @property
    def rounds(self) -> int:
        return 2

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        first = Turn(sync=last, kept=self.keep_clean)
        again = tuple(Turn(sync=left == 0) for left in reversed(range(window)))
        return (first, *again) if last else (first,)

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        yield batch.task_loss()
        if not batch.last:
            return
        restore = batch.move_weights(self.keep_clean)
        try:
            for one in batch.window:
                loss = one.again().loss
                assert loss is not None  # the first round had labels
                yield loss
        finally:
            restore()


@dataclass(frozen=True)
class Replay:
    """The same update several times, the optimizer stepping after each, the perturbation climbing on (FreeAT)."""

    passes: int

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise MethodError(f"Replay(passes={self.passes}): at least one pass is needed.")

    @property
    def rounds(self) -> int:
        return self.passes

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]:
        first = Turn(sync=last, step=last and self.passes > 1, kept=self.passes == 1)
        if not last:
            return (first,)
        rest = [
            Turn(sync=left == 0, step=left == 0 and round < self.passes - 1, kept=round == self.passes - 1)
            for round in range(1, self.passes)
            for left in reversed(range(window))
        ]
        return (first, *rest)

    def __call__(self, batch: Pass) -> Iterator[Tensor]:
        yield batch.term()
        if not batch.last:
            return
        for _ in range(1, self.passes):
            for one in batch.window:
                one.climb()
                yield one.term()
