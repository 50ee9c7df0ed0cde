from collections.abc import Sequence
from dataclasses import dataclass

from ..combine.single_pass import Add
from ..compare import Divergence
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import INF, Ascent, Normal, Normalized
from ..sites import NormalizedEmbedding
from ._common import OURS, Start, ball, start, units


@dataclass(frozen=True)
class Settings:
    weight: float
    step_size: float
    init_scale: float
    max_norm: float
    steps: int = 1
    dropout: Dropout = "fresh"
    growth: Scheduled = 1.0


PRESETS = {
    "recommended": Settings(weight=1.0, step_size=0.01, init_scale=0.001, max_norm=0.01, dropout="shared"),
    "robust": Settings(weight=1.0, step_size=0.03, init_scale=0.003, max_norm=0.03, dropout="shared"),
    "deberta": Settings(weight=5.0, step_size=1e-4, init_scale=1e-2, max_norm=0.0),
}


@register_method("sift")
def sift(
    preset: str = "recommended",
    *,
    weight: float | None = None,
    step_size: float | None = None,
    init_scale: float | None = None,
    max_norm: float | None = None,
    steps: int | None = None,
    dropout: Dropout | None = None,
    growth: float | Sequence[float] | Scheduled | None = None,
    init: Start | None = None,
) -> Method:
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
    s = choose(
        PRESETS,
        preset,
        weight=weight,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        steps=steps,
        dropout=dropout,
        growth=growth,
    )
    scale = units(preset, s.growth)
    if preset in OURS:
        noise = start(init, Normal(s.init_scale))
        search = Ascent(s.step_size, s.steps, noise, Normalized(p=2, over="example"), ball(s.max_norm), scale)
        return Method(NormalizedEmbedding(), search, Divergence(), Add(s.weight), dropout=s.dropout)
    noise = start(init, Normal(s.init_scale, clip=2.0))
    shape = Normalized(p=INF, over="token", plus=1e-6)
    return Method(
        site=NormalizedEmbedding(skip=(), replace=True),
        search=Ascent(s.step_size, s.steps, noise, shape, ball(s.max_norm, p=INF), scale),
        compare=Divergence("cross_entropies"),
        combine=Add(s.weight),
        search_objective=Divergence("cross_entropies", reduction="sum"),
        dropout=s.dropout,
    )
