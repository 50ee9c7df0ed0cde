"""HOW to find a perturbation: gradient ascent, power iteration, plain noise."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import MethodError
from ..parts import View
from .init import Init, Normal, Zeros
from .norms import Absolute, Free, Over, Project, Relative, Shape, Unit, Units, check_norm, norm


@dataclass(frozen=True)
class Ascent:
    """Projected gradient ascent: delta <- project(delta + step_size * shape(gradient))."""

    step_size: float
    steps: int = 1
    init: Init = Zeros()
    shape: Shape = Unit()
    project: Project = Free()
    units: Units = Relative()
    mask_gradient: bool = True  # False: masked positions start at zero and may then move, as in FreeLB's code

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise MethodError(f"Ascent(steps={self.steps}): the number of steps cannot be negative.")
        if not self.step_size > 0:
            raise MethodError(f"Ascent(step_size={self.step_size}): a step must be above 0; for noise alone use Noise.")

    def start(self, view: View) -> Tensor:
        return view.masked(self.init(view, self.units))

    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
        return [self._climb(*one) for one in zip(deltas, grads, views, strict=True)]

    def _climb(self, delta: Tensor, grad: Tensor, view: View) -> Tensor:
        grad = view.masked(grad) if self.mask_gradient else grad
        length = self.units.length(view, self.shape.p, self.shape.over)
        return self.project(delta + self.step_size * length * self.shape(grad), view, self.units)

    def finish(self, delta: Tensor, view: View) -> Tensor:
        return delta


@dataclass(frozen=True)
class PowerIteration:
    """The direction in which a divergence curves most: a tiny random probe, replaced by its normalised gradient (VAT).

    Probes have length `probe`; the last pass sees length `radius`.
    """

    radius: float
    probe: float
    steps: int = 1
    p: float = 2
    over: Over = "example"
    units: Units = Relative()
    init: Init = Normal(1.0)

    def __post_init__(self) -> None:
        if not (self.radius > 0 and self.probe > 0) or self.steps < 1:
            raise MethodError(
                f"PowerIteration(radius={self.radius}, probe={self.probe}, steps={self.steps}): "
                "radius and probe must be above 0, and at least one step is needed."
            )
        check_norm(self, self.p, self.over)

    def start(self, view: View) -> Tensor:
        return self._scaled(view.masked(self.init(view, Absolute())), self.probe, view)

    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
        return [self._scaled(view.masked(g), self.probe, view) for g, view in zip(grads, views, strict=True)]

    def finish(self, delta: Tensor, view: View) -> Tensor:
        return self._scaled(delta, self.radius, view)

    def _scaled(self, x: Tensor, length: float, view: View) -> Tensor:
        return x / norm(x, self.p, self.over).clamp(min=1e-30) * length * self.units.length(view, self.p, self.over)


@dataclass(frozen=True)
class Noise:
    """Random noise, no ascent."""

    init: Init
    units: Units = Relative()
    steps: int = 0

    def start(self, view: View) -> Tensor:
        return view.masked(self.init(view, self.units))

    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
        return list(deltas)

    def finish(self, delta: Tensor, view: View) -> Tensor:
        return delta


def nothing() -> Noise:
    """No perturbation at all, for sites that have none to look for."""
    return Noise(Zeros())
