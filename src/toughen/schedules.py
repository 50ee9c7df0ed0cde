"""A setting that changes as training goes on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

from .errors import MethodError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class TrainingProgress:
    """How far the training is, in updates; the total only where somebody told it."""

    updates: int = 0
    total: int | None = None
    device: "torch.device | None" = None  # where settings that change are kept, if a captured step is to read them
    value_tensors: "dict[LinearSchedule, Tensor]" = field(default_factory=lambda: {}, repr=False)

    def value_tensor(self, ramp: "LinearSchedule") -> "Tensor":
        import torch

        if ramp not in self.value_tensors:
            self.value_tensors[ramp] = torch.tensor(ramp.at(self), device=self.device)
        return self.value_tensors[ramp]

    def update_values(self) -> None:
        """To where the training is."""
        for ramp, value_tensor in self.value_tensors.items():
            value_tensor.fill_(ramp.at(self))


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from `start` to `end`, then level.

    `over` is the share of the training it takes if at most 1 - the number of updates is then asked of `attach` or taken
    from the Trainer - and a number of updates otherwise.
    """

    start: float
    end: float
    over: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise MethodError(f"{self!r}: a ramp starts and ends at a finite number.")
        if not self.over > 0:
            raise MethodError(f"{self!r}: over is a share of the training or a number of updates, and must be above 0.")

    def at(self, clock: TrainingProgress) -> float:
        length = self.over
        if length <= 1:
            if clock.total is None:
                raise MethodError(
                    f"{self!r} lasts a share of the training, and the number of updates is not known. Give it: "
                    "method.attach(model, total_steps=...), or set over to a number of updates."
                )
            length *= clock.total
        return self.start + (self.end - self.start) * min(clock.updates / max(length, 1), 1.0)


Scheduled: TypeAlias = float | LinearSchedule


def scheduled(value: "Scheduled | Sequence[float]") -> Scheduled:
    """A number, a Ramp, or the ramp's two or three numbers as a list, as configuration files write it."""
    if isinstance(value, (int, float, LinearSchedule)):
        return value
    numbers = [float(one) for one in value]
    if len(numbers) not in (2, 3):
        raise MethodError(f"{value!r}: a ramp is (start, end) or (start, end, over).")
    return LinearSchedule(*numbers)


def value_at(value: Scheduled, clock: TrainingProgress) -> "float | Tensor":
    if not isinstance(value, LinearSchedule):
        return value
    return value.at(clock) if clock.device is None else clock.value_tensor(value)


def minimum(value: Scheduled) -> float:
    return min(value.start, value.end) if isinstance(value, LinearSchedule) else cast(float, value)
