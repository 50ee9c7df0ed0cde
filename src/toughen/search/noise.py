"""Random noise, no ascent."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..sites.base import Activation
from .init import Init, Normal, Uniform, Zeros
from .norms import Absolute, Relative, Units


@dataclass(frozen=True)
class Noise:
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

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return list(deltas)

    def project_final(self, delta: Tensor, view: Activation) -> Tensor:
        return delta


def no_perturbation() -> Noise:
    """No perturbation at all, for sites that have none to look for."""
    return Noise(Zeros())
