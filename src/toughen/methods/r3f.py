from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ..options import PresetOptions, RegularizerOptions, SiteOptions, Start
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("r3f")
@dataclass(frozen=True, kw_only=True)
class R3F(PresetOptions, SiteOptions, RegularizerOptions):
    """Noise in place of ascent (Aghajanyan et al. 2021): the prediction must not change under random noise.

    Presets:
        recommended: Gaussian noise of a tenth of the embedding's size, weight 3, masked, one dropout mask. Ours.
        paper: fairseq examples/rxf: uniform noise of 1e-5 on all positions, fresh dropout (which then makes the
            difference); regression by squared error, where the original computes its term and drops it.
    """

    weight: float = 3.0
    init_scale: float = 0.1
    """Size of the noise; in the recommended preset a share of the embedding's size."""
    noise: Literal["normal", "uniform"] = "normal"
    """Distribution of the noise."""
    init: Start | None = None
    """A function that gives the starting perturbation, in place of the random draw."""

    PRESETS: ClassVar = {
        "recommended": {},
        "paper": {"weight": 1.0, "init_scale": 1e-5, "noise": "uniform", "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..parts import Add, Divergence, Method, Noise, Normal, Uniform, WordEmbedding
        from ._common import make_init, make_units

        noise = Normal(self.init_scale) if self.noise == "normal" else Uniform(self.init_scale)
        site = WordEmbedding() if self.preset == "recommended" else WordEmbedding(skip=())
        search = Noise(make_init(self.init, noise), make_units(self.preset))
        return Method(site, search, Divergence(), Add(self.weight), dropout=self.dropout)
