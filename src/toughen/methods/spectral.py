from dataclasses import replace

from ..method import Method
from ..registry import named
from ..search.constraint import SpectralHead
from .plain import plain


@named("spectral")
def spectral() -> Method:
    """Ordinary fine-tuning with a head of spectral norm 1: R4F (Aghajanyan et al. 2021) without its noise.

    It costs nothing. New heads are drawn smaller than that, so the model learns faster at first; later the head cannot
    grow, so confidence has to come from the features. Add it to others: `toughen.smart() + toughen.spectral()`.
    """
    return replace(plain(), constraint=SpectralHead())
