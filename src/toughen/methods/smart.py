from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..combine.single_pass import Add
from ..compare import Divergence
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import INF, Ascent, Ball, Normal, Normalized, RawGradient, RescaleTo
from ..sites import Hidden, WordEmbedding
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
    "paper": Settings(weight=1.0, step_size=1e-3, init_scale=1e-5, max_norm=1e-5),
    "smart-pytorch": Settings(weight=0.02, step_size=1e-3, init_scale=1e-5, max_norm=1.0),
    "mt-dnn": Settings(weight=1.0, step_size=1e-5, init_scale=1e-5, max_norm=1.0),
}


RESCALED = ("smart-pytorch", "mt-dnn")  # whatever the length of the step, it ends at max_norm


@register_method("smart")
def smart(
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
    """Smoothness-inducing regularisation (Jiang et al., ACL 2020): the prediction must not change near the input.

    Presets:
        recommended: one l2 step of 1 % of the embedding's norm, padding and special tokens masked, one dropout mask
            for all passes, symmetric KL (squared error for regression). Ours.
        robust: the same with 3 %: more accuracy under attack, and less on tasks that are hard to learn. Ours.
        paper: Algorithm 1 of arXiv 1911.03437v5: noise 1e-5, gradient over its largest element, step 1e-3, clipped to
            1e-5; fresh dropout, which at this radius outweighs the perturbation. With `bregman(1.0)` the whole method.
        smart-pytorch: archinetai/smart-pytorch 0.0.4: raw gradient, the noise then rescaled to largest element 1 per
            token (its "epsilon" only guards the division), symmetric KL summed over the batch with fixed targets.
        mt-dnn: namisan/mt-dnn 3228e7c: the same update on the output of the embedding block with its log-odds
            divergence as the goal of the search. Its second embedding of that output is not repeated.

    Full SMART is `smart(preset="paper") + bregman(1.0)`.
    """
    s = choose(
        PRESETS,
        preset,
        ball=preset not in RESCALED,
        weight=weight,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        steps=steps,
        dropout=dropout,
        growth=growth,
    )
    noise, scale = start(init, Normal(s.init_scale)), units(preset, s.growth)
    if preset in OURS:
        search = Ascent(s.step_size, s.steps, noise, Normalized(p=2, over="example"), ball(s.max_norm), scale)
        return Method(WordEmbedding(), search, Divergence(), Add(s.weight), dropout=s.dropout)
    if preset == "paper":
        shape, project = Normalized(p=INF, over="example"), Ball(s.max_norm, p=INF)
        search = Ascent(s.step_size, s.steps, noise, shape, project, scale)
        return Method(WordEmbedding(skip=()), search, Divergence(), Add(s.weight), dropout=s.dropout)
    search = Ascent(s.step_size, s.steps, noise, RawGradient(), RescaleTo(s.max_norm, plus=1e-6), scale)
    if preset == "smart-pytorch":
        site, goal = WordEmbedding(skip=()), Divergence("kl")
        compare = Divergence("symmetric_kl", stop="targets", reduction="sum")
    else:
        site, goal = Hidden("embeddings", skip=()), Divergence("log_odds", reduction="sum")
        compare = Divergence("symmetric_kl", stop="targets")
    return Method(site, search, compare, Add(s.weight), search_objective=goal, dropout=s.dropout)


@register_method("alum")
def alum(
    layer: int | str = 0,
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
    """SMART at any layer (Liu et al. 2020, ALUM): `layer` is a number or the dotted path of a module.

    The settings are those of `smart`'s recommended preset; ALUM's published code (mt-dnn v0.2) does not run. Special
    tokens are left alone, so a head that reads the class token alone sees nothing of it at the last layer.
    """
    method = smart(
        weight=weight,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        steps=steps,
        dropout=dropout,
        growth=growth,
        init=init,
    )
    return replace(method, site=Hidden(layer))
