"""HOW to move weights uphill: one step from the gradient of a whole update (SAM, ASAM, AWP)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import MethodError
from ..parts import View
from ..tensors import length, lengths


def _finite_or_zero(scale: Tensor) -> Tensor:
    """No step where the gradient overflowed (the first steps under GradScaler do): nothing to climb on."""
    return torch.where(torch.isfinite(scale), scale, torch.zeros_like(scale))


@dataclass(frozen=True)
class SharpnessAscent:
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

    def start(self, view: View) -> Tensor:
        return torch.zeros_like(view.value)

    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
        sizes = [view.value.abs() + self.eta if self.adaptive else None for view in views]
        scaled = [g if size is None else g * size for g, size in zip(grads, sizes, strict=True)]
        total = length(scaled)
        scale = _finite_or_zero(self.radius / total.clamp(min=1e-30))
        moves = [s if size is None else s * size for s, size in zip(scaled, sizes, strict=True)]
        return [torch.nan_to_num(m, 0.0, 0.0, 0.0) * scale.to(m.dtype) for m in moves]

    def finish(self, delta: Tensor, view: View) -> Tensor:
        return delta


@dataclass(frozen=True)
class RelativeWeightAscent:
    """Each weight matrix by `step_size` of its own norm along its gradient, at most `radius` of each element (AWP)."""

    step_size: float
    radius: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not (self.step_size > 0 and self.radius > 0):
            raise MethodError(
                f"RelativeWeightAscent(step_size={self.step_size}, radius={self.radius}): both must be above 0."
            )

    def start(self, view: View) -> Tensor:
        return torch.zeros_like(view.value)

    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
        ratios = lengths([view.value for view in views]) / lengths(grads).clamp(min=1e-30)
        scales = _finite_or_zero(self.step_size * ratios).to(grads[0].dtype).unbind()
        return [self._move(*one) for one in zip(grads, scales, views, strict=True)]

    def _move(self, grad: Tensor, scale: Tensor, view: View) -> Tensor:
        limit = self.radius * view.value.abs()
        return (torch.nan_to_num(grad, 0.0, 0.0, 0.0) * scale).minimum(limit).maximum(-limit)

    def finish(self, delta: Tensor, view: View) -> Tensor:
        return delta
