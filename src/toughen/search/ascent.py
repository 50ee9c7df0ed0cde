"""Projected gradient ascent, and noise without any."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import MethodError
from ..sites.base import Activation
from .base import SearchDefaults
from .init import Init, Normal, Uniform, Zeros
from .norms import INF, Absolute, Direction, NoProjection, Normalized, Project, RawGradient, Relative, Units


@dataclass(frozen=True)
class Ascent(SearchDefaults):
    """Projected gradient ascent: delta <- project(delta + step_size * direction(gradient))."""

    step_size: float
    steps: int = 1
    init: Init = Zeros()
    direction: Direction = Normalized()
    project: Project = NoProjection()
    units: Units = Relative()
    mask_gradient: bool = True  # False: masked positions start at zero and may then move, as in FreeLB's code

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise MethodError(f"Ascent(steps={self.steps}): the number of steps cannot be negative.")
        if not self.step_size > 0:
            raise MethodError(f"Ascent(step_size={self.step_size}): a step must be above 0; for noise alone use Noise.")

    @property
    def starts_at_clean(self) -> bool:
        return isinstance(self.init, Zeros) or getattr(self.init, "scale", None) == 0

    @property
    def absolute_size(self) -> float | None:
        """The size of an element of the perturbation, where that is known in absolute numbers."""
        if not isinstance(self.units, Absolute):
            return None
        start = self.init.scale if isinstance(self.init, (Normal, Uniform)) else 0.0
        if isinstance(self.direction, RawGradient):
            return start or None
        radius = getattr(self.project, "radius", None)
        step = self.step_size if radius is None else min(self.step_size, radius)
        return max(start, step) if self.direction.p == INF else None

    def start(self, view: Activation) -> Tensor:
        return view.masked(self.init(view, self.units))

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return [self._ascend(*one) for one in zip(deltas, grads, views, strict=True)]

    def _ascend(self, delta: Tensor, grad: Tensor, view: Activation) -> Tensor:
        grad = view.masked(grad) if self.mask_gradient else grad
        length = self.units.length(view, self.direction.p, self.direction.per)
        return self.project(delta + self.step_size * length * self.direction(grad), view, self.units)


@dataclass(frozen=True)
class Noise(SearchDefaults):
    """Random noise, no ascent."""

    init: Init
    units: Units = Relative()
    steps: int = 0

    @property
    def absolute_size(self) -> float | None:
        """The size of an element of the noise, where that is known in absolute numbers."""
        if isinstance(self.units, Absolute) and isinstance(self.init, (Normal, Uniform)):
            return self.init.scale or None
        return None

    def start(self, view: Activation) -> Tensor:
        return view.masked(self.init(view, self.units))


def no_perturbation() -> Noise:
    """Return the search of sites that have nothing to search for."""
    return Noise(Zeros())
