from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..registry import register_method
from .plain import Plain

if TYPE_CHECKING:
    from ..method import Method


@register_method("spectral")
@dataclass(frozen=True)
class Spectral(Plain):
    """Ordinary fine-tuning with a head of spectral norm 1: R4F (Aghajanyan et al. 2021) without its noise.

    The same passes as plain training: the head's weights are scaled before every update. On the leaderboard it has most
    of R4F's gain on CoLA, within noise. Add it to others: `toughen.smart() + toughen.spectral()`.
    """

    def build(self) -> "Method":
        from ..parts import SpectralNormHead

        return replace(super().build(), constraint=SpectralNormHead())
