"""Power iteration: the direction in which a divergence curves most."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import MethodError
from ..sites.base import Activation
from .init import Init, Normal
from .norms import Absolute, Per, Relative, Units, check_norm, norm


@dataclass(frozen=True)
class PowerIteration:
    """The direction in which a divergence curves most: a tiny random probe, replaced by its normalised gradient (VAT).

    Probes have length `probe`; the last pass sees length `radius`.
    """

    radius: float
    probe: float
    steps: int = 1
    p: float = 2
    per: Per = "example"
    units: Units = Relative()
    init: Init = Normal(1.0)

    def __post_init__(self) -> None:
        if not (self.radius > 0 and self.probe > 0) or self.steps < 1:
            raise MethodError(
                f"PowerIteration(radius={self.radius}, probe={self.probe}, steps={self.steps}): "
                "radius and probe must be above 0, and at least one step is needed."
            )
        check_norm(self, self.p, self.per)

    def start(self, view: Activation) -> Tensor:
        return self._scaled(view.masked(self.init(view, Absolute())), self.probe, view)

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return [self._scaled(view.masked(g), self.probe, view) for g, view in zip(grads, views, strict=True)]

    def project_final(self, delta: Tensor, view: Activation) -> Tensor:
        return self._scaled(delta, self.radius, view)

    def _scaled(self, x: Tensor, length: float, view: Activation) -> Tensor:
        return x / norm(x, self.p, self.per).clamp(min=1e-30) * length * self.units.length(view, self.p, self.per)
