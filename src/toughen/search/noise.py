"""Random noise, no ascent."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..sites.base import Activation
from .init import Init, Zeros
from .norms import Relative, Units


@dataclass(frozen=True)
class Noise:
    """Random noise, no ascent."""

    init: Init
    units: Units = Relative()
    steps: int = 0

    def start(self, view: Activation) -> Tensor:
        return view.masked(self.init(view, self.units))

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return list(deltas)

    def project_final(self, delta: Tensor, view: Activation) -> Tensor:
        return delta


def no_perturbation() -> Noise:
    """No perturbation at all, for sites that have none to look for."""
    return Noise(Zeros())
