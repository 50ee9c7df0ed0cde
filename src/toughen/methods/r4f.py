from dataclasses import replace
from typing import Literal

from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..search.constraint import SpectralNormHead
from ._common import Start
from .r3f import Settings, r3f

PRESETS = {
    "recommended": Settings(weight=1.0, init_scale=0.3, noise="normal", dropout="shared"),
    "paper": Settings(weight=1.0, init_scale=1e-5, noise="uniform", dropout="fresh"),
}


@register_method("r4f")
def r4f(
    preset: str = "recommended",
    *,
    weight: float | None = None,
    init_scale: float | None = None,
    noise: Literal["normal", "uniform"] | None = None,
    dropout: Dropout | None = None,
    init: Start | None = None,
) -> Method:
    """R3F with a head of spectral norm 1 (Aghajanyan et al. 2021).

    Presets:
        recommended: as R3F's, with noise of three tenths and weight 1. Ours.
        paper: as R3F's.
    """
    s = choose(PRESETS, preset, weight=weight, init_scale=init_scale, noise=noise, dropout=dropout)
    method = r3f(preset, weight=s.weight, init_scale=s.init_scale, noise=s.noise, dropout=s.dropout, init=init)
    return replace(method, constraint=SpectralNormHead())
