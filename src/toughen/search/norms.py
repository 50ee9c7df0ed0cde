"""Lengths of perturbations: norms per token or example, balls, and the units they are measured in."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from ..errors import MethodError, nearest
from ..schedules import Scheduled, minimum, value_at
from ..sites.base import Activation

Per: TypeAlias = Literal["token", "example"]
INF = math.inf


def norm(x: Tensor, p: float, per: Per) -> Tensor:
    """The p-norm of each token (last dimension) or each example (all but the first), ready to broadcast.

    Summed in float64 where the device has it: the squares of a confident example's gradient (1e-23) are zero in
    float32, and a gradient divided by a norm of zero would be a perturbation a million times too large.
    """
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    dims = -1 if per == "token" else tuple(range(1, x.dim()))
    return torch.linalg.vector_norm(x, ord=p, dim=dims, keepdim=True, dtype=wide).to(x.dtype)


def check_norm(part: object, p: float, per: str) -> None:
    """Refuse a norm that is none, and words that would be one thing to a norm and another to its units."""
    if per not in Per.__args__:
        raise MethodError(f"{type(part).__name__}: per={per!r} is not known. {nearest(per, Per.__args__)}")
    if not p >= 1:
        raise MethodError(f"{type(part).__name__}: p={p} makes no norm. Choose 1 or above; INF is the largest element.")


class Units(Protocol):
    """What a radius of 1 means at a view: the length of a vector under a p-norm."""

    def length(self, view: Activation, p: float, per: Per) -> Tensor | float: ...


@dataclass(frozen=True)
class Absolute:
    """Lengths as the papers give them, whatever the size of the embedding."""

    def length(self, view: Activation, p: float, per: Per) -> float:
        return 1.0


@dataclass(frozen=True)
class Relative:
    """Lengths in units of the embedding's own: 0.1 is a tenth of it, on any model.

    A vector all of whose elements are as large as the embedding's root mean square has length 1, under every norm.
    """

    def length(self, view: Activation, p: float, per: Per) -> Tensor:
        if p == INF:
            return view.rms
        if (p, per) == (2, "example"):
            return view.l2
        if (p, per) not in view.lengths:
            view.lengths[p, per] = view.rms * (view.count if per == "example" else view.value.shape[-1]) ** (1 / p)
        return view.lengths[p, per]


@dataclass(frozen=True)
class ScheduledUnits:
    """Lengths that change as training goes on: a `factor` on those of other units.

    What is hard to learn is first learnt from texts that hardly move; a full radius from the start may prevent it.
    """

    factor: Scheduled
    units: Units = Relative()

    def __post_init__(self) -> None:
        if not minimum(self.factor) > 0:
            raise MethodError(f"ScheduledUnits({self.factor}): the factor on a radius must stay above 0.")

    def length(self, view: Activation, p: float, per: Per) -> Tensor | float:
        return value_at(self.factor, view.progress) * self.units.length(view, p, per)


class Direction(Protocol):
    """What becomes of a gradient before the step is taken, and the norm in which the step is then measured."""

    @property
    def p(self) -> float: ...

    @property
    def per(self) -> Per: ...

    def __call__(self, grad: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Normalized:
    """Scale to unit norm.

    Nothing is added to the norm by default: with an epsilon there, the step depends on the loss scale, the batch split
    and the number of processes. `eps` and `min_norm` are for presets whose originals have one.
    """

    p: float = 2
    per: Per = "example"
    eps: float = 0.0
    min_norm: float = 1e-30

    def __post_init__(self) -> None:
        check_norm(self, self.p, self.per)

    def __call__(self, grad: Tensor) -> Tensor:
        length = norm(grad, self.p, self.per)
        return grad / (length + self.eps if self.eps else length).clamp(min=self.min_norm)


@dataclass(frozen=True)
class Sign:
    """Every element to plus or minus one."""

    p: float = INF
    per: Per = "token"

    def __call__(self, grad: Tensor) -> Tensor:
        return grad.sign()


@dataclass(frozen=True)
class RawGradient:
    """The gradient as it is."""

    p: float = INF
    per: Per = "token"

    def __call__(self, grad: Tensor) -> Tensor:
        return grad


Project: TypeAlias = Callable[[Tensor, Activation, Units], Tensor]


@dataclass(frozen=True)
class NoProjection:
    """No ball."""

    def __call__(self, x: Tensor, view: Activation, units: Units) -> Tensor:
        return x


@dataclass(frozen=True)
class Ball:
    """Shrink to a ball; what lies inside is left alone."""

    radius: float
    p: float = 2
    per: Per = "example"

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise MethodError(
                f"Ball(radius={self.radius}): a radius must be above 0. Use NoProjection() for no ball at all."
            )
        check_norm(self, self.p, self.per)

    def __call__(self, x: Tensor, view: Activation, units: Units) -> Tensor:
        limit = self.radius * units.length(view, self.p, self.per)
        if self.p == INF:
            # Not torch.as_tensor: to copy a number to the device waits for it, and ends a capture.
            bound = limit.to(x.dtype) if isinstance(limit, Tensor) else x.new_full((), limit)
            return x.maximum(-bound).minimum(bound)
        return x * (limit / norm(x, self.p, self.per).clamp(min=1e-30)).clamp(max=1.0)


@dataclass(frozen=True)
class RescaleTo:
    """Scale the whole perturbation to one length, inside the ball or out (SMART as published in code)."""

    radius: float = 1.0
    p: float = INF
    per: Per = "token"
    eps: float = 0.0

    def __post_init__(self) -> None:
        if not self.radius > 0:  # below 0 it would turn the perturbation round
            raise MethodError(f"RescaleTo(radius={self.radius}): a length must be above 0.")
        check_norm(self, self.p, self.per)

    def __call__(self, x: Tensor, view: Activation, units: Units) -> Tensor:
        limit = self.radius * units.length(view, self.p, self.per)
        return limit * Normalized(self.p, self.per, self.eps)(x)
