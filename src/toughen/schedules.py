"""A setting that changes as training goes on."""

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .errors import MethodError, warn_renamed

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class TrainingProgress:
    """How far the training is, in updates; the total only where it is known."""

    updates: int = 0
    total: int | None = None
    device: "torch.device | None" = None  # where settings that change are kept, if a captured step is to read them
    value_tensors: "dict[LinearSchedule, Tensor]" = field(default_factory=lambda: {}, repr=False)

    def value_tensor(self, schedule: "LinearSchedule") -> "Tensor":
        import torch

        if schedule not in self.value_tensors:
            self.value_tensors[schedule] = torch.tensor(schedule.at(self), device=self.device)
        return self.value_tensors[schedule]

    def update_values(self) -> None:
        """Set the tensors to the values of this update."""
        for schedule, value_tensor in self.value_tensors.items():
            value_tensor.fill_(schedule.at(self))


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from `start` to `end`, then level.

    Args:
        start: The value at the first update.
        end: The value after `duration`.
        duration: Up to 1 a share of the training, of which `attach(total_steps=...)` or the Trainer knows the length;
            above 1 a number of updates.
        over: The old name of `duration`.

    Raises:
        MethodError: A number that is not finite, or a duration of 0.

    Examples:
        >>> grows = toughen.LinearSchedule(0.1, 1.0, duration=0.5)
        >>> attached = toughen.smart(radius_schedule=grows).attach(model, tokenizer, total_steps=100)
    """

    start: float
    end: float
    duration: float = 1.0
    over: InitVar[float | None] = None

    def __post_init__(self, over: float | None) -> None:
        if over is not None:
            warn_renamed("over", "duration")
            object.__setattr__(self, "duration", over)
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise MethodError(f"{self!r}: a schedule starts and ends at a finite number.")
        if not self.duration > 0:
            raise MethodError(
                f"{self!r}: duration is a share of the training or a number of updates, and must be above 0."
            )

    def at(self, progress: TrainingProgress) -> float:
        length = self.duration
        if length <= 1:
            if progress.total is None:
                raise MethodError(
                    f"{self!r} lasts a share of the training, and the number of updates is not known. Give it: "
                    "method.attach(model, total_steps=...), or set duration to a number of updates."
                )
            length *= progress.total
        return self.start + (self.end - self.start) * min(progress.updates / max(length, 1), 1.0)


Scheduled: TypeAlias = float | LinearSchedule


def scheduled(value: "Scheduled | Sequence[float]") -> Scheduled:
    """Return a number or a schedule, also from a list of the schedule's numbers as configuration files write it."""
    if isinstance(value, (int, float, LinearSchedule)):
        return value
    numbers = [float(one) for one in value]
    if len(numbers) not in (2, 3):
        raise MethodError(f"{value!r}: a schedule is (start, end) or (start, end, duration).")
    return LinearSchedule(*numbers)


def value_at(value: Scheduled, progress: TrainingProgress) -> "float | Tensor":
    if not isinstance(value, LinearSchedule):
        return value
    return value.at(progress) if progress.device is None else progress.value_tensor(value)


def minimum(value: Scheduled) -> float:
    return min(value.start, value.end) if isinstance(value, LinearSchedule) else value
