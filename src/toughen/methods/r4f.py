from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..registry import register_method
from .r3f import R3F

if TYPE_CHECKING:
    from ..method import Method


@register_method("r4f")
@dataclass(frozen=True, kw_only=True)
class R4F(R3F):
    """R3F with a head of spectral norm 1 (Aghajanyan et al. 2021).

    Presets:
        recommended: as R3F's, with noise of three tenths and weight 1. Ours.
        paper: as R3F's.
    """

    weight: float = 1.0
    init_scale: float = 0.3

    def build(self) -> "Method":
        from ..parts import SpectralNormHead

        return replace(super().build(), constraint=SpectralNormHead())
