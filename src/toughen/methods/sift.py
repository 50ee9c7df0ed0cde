from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..options import AscentOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("sift")
@dataclass(frozen=True)
class Sift(AscentOptions):
    """Scale-invariant fine-tuning (He et al. 2021, DeBERTa): SMART on normalised embeddings.

    Presets:
        recommended: one l2 step of 1 % of the normalised embedding's norm, masked, one dropout mask for all passes.
            Without a perturbation the pass is the model's own. Ours.
        robust: the same with 3 %: more accuracy under attack, and less on tasks that are hard to learn. Ours.
        deberta: microsoft/DeBERTa 4d7fe0b, sift.py: clipped noise 1e-2, one step of 1e-4 per token over the gradient's
            largest element plus 1e-6, two cross-entropies with fixed targets as the loss, no gradient from the
            perturbed pass to the embedding tables, the extra LayerNorm (eps 1e-7) in the clean pass too. weight 5 is
            that of mnli.sh base-sift. Regression uses squared error, where the original's term is always 0.
    """

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""
    _: KW_ONLY
    weight: float = 1.0
    """Weight of the added term in the loss."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "recommended": {},
        "robust": {"step_size": 0.03, "init_scale": 0.003, "max_norm": 0.03},
        "deberta": {"weight": 5.0, "step_size": 1e-4, "init_scale": 1e-2, "max_norm": 0.0, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..combine.single_pass import Add
        from ..compare import Divergence
        from ..method import Method
        from ..search import INF, Ascent, Normal, Normalized
        from ..sites import NormalizedEmbedding
        from ._common import RELATIVE_PRESETS, make_init, make_projection, make_units

        scale = make_units(self.preset, self.radius_schedule)
        if self.preset in RELATIVE_PRESETS:
            noise, direction = make_init(self.init, Normal(self.init_scale)), Normalized(p=2, per="example")
            search = Ascent(self.step_size, self.steps, noise, direction, make_projection(self.max_norm), scale)
            return Method(NormalizedEmbedding(), search, Divergence(), Add(self.weight), dropout=self.dropout)
        noise, direction = (
            make_init(self.init, Normal(self.init_scale, clip=2.0)),
            Normalized(p=INF, per="token", eps=1e-6),
        )
        return Method(
            site=NormalizedEmbedding(skip=(), replace=True),
            search=Ascent(self.step_size, self.steps, noise, direction, make_projection(self.max_norm, p=INF), scale),
            compare=Divergence("sift_cross_entropy"),
            combine=Add(self.weight),
            search_objective=Divergence("sift_cross_entropy", reduction="sum"),
            dropout=self.dropout,
        )
