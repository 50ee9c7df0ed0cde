from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..options import Dropout, MethodOptions, Start
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("r3f")
@dataclass(frozen=True)
class R3F(MethodOptions):
    """Noise in place of ascent (Aghajanyan et al. 2021): the prediction must not change under random noise.

    Presets:
        recommended: Gaussian noise of a tenth of the embedding's size, weight 3, masked, one dropout mask. Ours.
        paper: fairseq examples/rxf: uniform noise of 1e-5 on all positions, fresh dropout (which then makes the
            difference); regression by squared error, where the original computes its term and drops it.
    """

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""
    _: KW_ONLY
    weight: float = 3.0
    """Weight of the added term in the loss."""
    init_scale: float = 0.1
    """Size of the noise; in the recommended preset a share of the embedding's size."""
    noise: Literal["normal", "uniform"] = "normal"
    """Distribution of the noise."""
    dropout: Dropout = "shared"
    """One dropout mask for all passes of a batch (shared), one for each (fresh), or none (off)."""
    init: Start | None = None

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "recommended": {},
        "paper": {"weight": 1.0, "init_scale": 1e-5, "noise": "uniform", "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..combine.single_pass import Add
        from ..compare import Divergence
        from ..method import Method
        from ..search import Absolute, Noise, Normal, Relative, Uniform
        from ..sites import WordEmbedding
        from ._common import make_init

        draw = make_init(self.init, Normal(self.init_scale) if self.noise == "normal" else Uniform(self.init_scale))
        ours = self.preset == "recommended"
        site = WordEmbedding() if ours else WordEmbedding(skip=())
        search = Noise(draw, Relative() if ours else Absolute())
        return Method(site, search, Divergence(), Add(self.weight), dropout=self.dropout)
