"""How a perturbation starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..errors import MethodError
from ..sites.base import Activation
from .norms import INF, Units


class Init(Protocol):
    def __call__(self, view: Activation, units: Units) -> Tensor: ...


def draw(view: Activation, kind: Callable[..., Tensor], width: int | None = None) -> Tensor:
    """Noise of the view's shape, position by position, so that padding to the right does not shift the stream.

    `width` takes the place of the last dimension's size.
    """
    shape = [*view.value.shape[:-1], view.value.shape[-1] if width is None else width]
    if len(shape) > 2:
        shape[0], shape[1] = shape[1], shape[0]
    noise = kind(shape, generator=view.random, device=view.value.device, dtype=view.dtype)
    return noise.transpose(0, 1).contiguous() if len(shape) > 2 else noise


def _check_scale(init: object, scale: float) -> None:
    if not scale >= 0:
        raise MethodError(
            f"{type(init).__name__}({scale}): the size of the starting noise cannot be negative; 0 starts from zero."
        )


@dataclass(frozen=True)
class _Scaled:
    scale: float

    def __post_init__(self) -> None:
        _check_scale(self, self.scale)


@dataclass(frozen=True)
class Zeros:
    """No noise: the clean point."""

    def __call__(self, view: Activation, units: Units) -> Tensor:
        return torch.zeros(view.value.shape, device=view.value.device, dtype=view.dtype)


@dataclass(frozen=True)
class Normal(_Scaled):
    """Gaussian noise with `scale` as its standard deviation; `clip` cuts it at so many deviations."""

    clip: float | None = None

    def __call__(self, view: Activation, units: Units) -> Tensor:
        noise = draw(view, torch.randn)
        noise = noise if self.clip is None else noise.clamp(-self.clip, self.clip)
        return noise * self.scale * units.length(view, INF, "example")


@dataclass(frozen=True)
class Uniform(_Scaled):
    """Every element uniform in [-scale, scale]."""

    def __call__(self, view: Activation, units: Units) -> Tensor:
        return (2 * draw(view, torch.rand) - 1) * self.scale * units.length(view, INF, "example")


@dataclass(frozen=True)
class UniformBall(_Scaled):
    """Uniform noise whose l2 norm per example is about scale / sqrt(3), however long the example (FreeLB).

    The divisor is the number of unmasked *elements*, length times width, as in run_glue_freelb.py:236-239.
    """

    def __call__(self, view: Activation, units: Units) -> Tensor:
        length = self.scale * units.length(view, 2, "example")
        return (2 * draw(view, torch.rand) - 1) * (length / view.count.sqrt())


@dataclass(frozen=True)
class NeftuneNoise:
    """Uniform in [-1, 1] times alpha / sqrt(length * width), with the true length of each text (NEFTune)."""

    alpha: float

    def __post_init__(self) -> None:
        _check_scale(self, self.alpha)

    def __call__(self, view: Activation, units: Units) -> Tensor:
        return (2 * draw(view, torch.rand) - 1) * (self.alpha / view.count.sqrt())


@dataclass(frozen=True)
class CustomInit:
    """A starting perturbation of the user's own: called with the view, taken as it is."""

    fn: Callable[[Activation], Tensor]

    def __call__(self, view: Activation, units: Units) -> Tensor:
        return self.fn(view).to(device=view.value.device, dtype=view.dtype)
