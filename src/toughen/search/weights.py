"""HOW to move weights towards a higher loss: one step from the gradient of a whole update (SAM, ASAM, AWP).

Moves are written over the gradients: a copy for all weights would cost memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import MethodError
from ..internal.foreach import absolute, clamp_abs, l2_norm, l2_norms, nan_to_zero, scale
from ..sites.base import Activation
from .base import SearchDefaults


def _scale(grads: Sequence[Tensor], sizes: Tensor, radius: Tensor | float) -> None:
    """Bring gradients of these lengths, each its own or all together one, to length `radius`.

    No step where the gradient overflowed, as the first ones under GradScaler do.
    """
    factors = radius / sizes.clamp(min=1e-30)
    factors = torch.where(torch.isfinite(factors), factors, torch.zeros_like(factors))
    scale(grads, factors if factors.dim() == 0 else factors.unbind())
    # 0 * inf is NaN, so clear non-finite values. On the CPU, a check is cheaper than a pass over all weights.
    if sizes.device.type != "cpu" or not bool(torch.isfinite(sizes).all()):
        nan_to_zero(grads)


class _WeightAscent(SearchDefaults):
    acts_on: ClassVar[str] = "weights"

    def start(self, view: Activation) -> Tensor:
        return torch.zeros_like(view.value)


@dataclass(frozen=True)
class SharpnessAscent(_WeightAscent):
    """One step of length `radius` along the gradient of all weights together.

    `adaptive` measures each weight in units of itself (ASAM, Kwon et al. 2021), with `eta` for weights near zero.
    """

    radius: float
    adaptive: bool = False
    eta: float = 0.0
    steps: int = 1

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise MethodError(f"SharpnessAscent(radius={self.radius}): the radius must be above 0.")

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        if self.adaptive:
            sizes = absolute([view.value for view in views])
            for size in sizes:
                size += self.eta
            scale(grads, sizes)
            total = l2_norm(grads)
            scale(grads, sizes)
        else:
            total = l2_norm(grads)
        _scale(grads, total, self.radius)
        return list(grads)


@dataclass(frozen=True)
class RelativeWeightAscent(_WeightAscent):
    """Each weight matrix by `step_size` of its own norm along its gradient, at most `radius` of each element (AWP)."""

    step_size: float
    radius: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not (self.step_size > 0 and self.radius > 0):
            raise MethodError(
                f"RelativeWeightAscent(step_size={self.step_size}, radius={self.radius}): both must be above 0."
            )

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        weights = [view.value for view in views]
        _scale(grads, l2_norms(grads), self.step_size * l2_norms(weights))
        limits = absolute(weights)
        for limit in limits:
            limit *= self.radius
        clamp_abs(grads, limits)
        return list(grads)
