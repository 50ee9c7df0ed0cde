from dataclasses import dataclass
from typing import Literal

from ..combine.single_pass import Add
from ..compare import Divergence
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..search import Absolute, Noise, Normal, Relative, Uniform
from ..sites import WordEmbedding
from ._common import Start, start


@dataclass(frozen=True)
class Settings:
    weight: float
    init_scale: float
    noise: Literal["normal", "uniform"]
    dropout: Dropout


PRESETS = {
    "recommended": Settings(weight=3.0, init_scale=0.1, noise="normal", dropout="shared"),
    "paper": Settings(weight=1.0, init_scale=1e-5, noise="uniform", dropout="fresh"),
}


@register_method("r3f")
def r3f(
    preset: str = "recommended",
    *,
    weight: float | None = None,
    init_scale: float | None = None,
    noise: Literal["normal", "uniform"] | None = None,
    dropout: Dropout | None = None,
    init: Start | None = None,
) -> Method:
    """Noise in place of ascent (Aghajanyan et al. 2021): the prediction must not change under random noise.

    Presets:
        recommended: Gaussian noise of a tenth of the embedding's size, weight 3, masked, one dropout mask. Ours.
        paper: fairseq examples/rxf: uniform noise of 1e-5 on all positions, fresh dropout (which then makes the
            difference); regression by squared error, where the original computes its term and drops it.
    """
    s = choose(PRESETS, preset, weight=weight, init_scale=init_scale, noise=noise, dropout=dropout)
    draw = start(init, Normal(s.init_scale) if s.noise == "normal" else Uniform(s.init_scale))
    ours = preset == "recommended"
    site = WordEmbedding() if ours else WordEmbedding(skip=())
    search = Noise(draw, Relative() if ours else Absolute())
    return Method(site, search, Divergence(), Add(s.weight), dropout=s.dropout)
