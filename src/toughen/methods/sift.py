from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..options import AscentOptions, PresetOptions, RegularizerOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("sift")
@dataclass(frozen=True, kw_only=True)
class Sift(PresetOptions, AscentOptions, RegularizerOptions):
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

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": {"step_size": 0.03, "init_scale": 0.003, "max_norm": 0.03},
        "deberta": {"weight": 5.0, "step_size": 1e-4, "init_scale": 1e-2, "max_norm": 0.0, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..parts import INF, Add, Divergence, Method, Normal, Normalized, NormalizedEmbedding
        from ._common import RELATIVE_PRESETS, make_ascent

        if self.preset in RELATIVE_PRESETS:
            search = make_ascent(self, Normal(self.init_scale))
            return Method(NormalizedEmbedding(), search, Divergence(), Add(self.weight), dropout=self.dropout)
        noise, direction = Normal(self.init_scale, clip=2.0), Normalized(p=INF, per="token", eps=1e-6)
        return Method(
            site=NormalizedEmbedding(skip=(), replace=True),
            search=make_ascent(self, noise, direction),
            compare=Divergence("sift_cross_entropy"),
            combine=Add(self.weight),
            search_objective=Divergence("sift_cross_entropy", reduction="sum"),
            dropout=self.dropout,
        )
