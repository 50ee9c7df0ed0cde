from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from ..options import AscentOptions, PresetOptions, RegularizerOptions, Schedule
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method

RESCALED_PRESETS = ("smart-pytorch", "mt-dnn")  # whatever the length of the step, it ends at max_norm


@register_method("smart")
@dataclass(frozen=True, kw_only=True)
class Smart(PresetOptions, AscentOptions, RegularizerOptions):
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

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": {"step_size": 0.03, "init_scale": 0.003, "max_norm": 0.03},
        "paper": {"step_size": 1e-3, "init_scale": 1e-5, "max_norm": 1e-5, "dropout": "fresh"},
        "smart-pytorch": {"weight": 0.02, "step_size": 1e-3, "init_scale": 1e-5, "max_norm": 1.0, "dropout": "fresh"},
        "mt-dnn": {"step_size": 1e-5, "init_scale": 1e-5, "max_norm": 1.0, "dropout": "fresh"},
    }

    @property
    def ball_radius(self) -> Schedule:
        return 0.0 if self.preset in RESCALED_PRESETS else self.max_norm

    def build(self) -> "Method":
        from ..parts import (
            INF,
            Add,
            Divergence,
            Hidden,
            Method,
            Normal,
            Normalized,
            RawGradient,
            RescaleTo,
            WordEmbedding,
        )
        from ._common import RELATIVE_PRESETS, make_ascent

        noise = Normal(self.init_scale)
        if self.preset in RELATIVE_PRESETS:
            search = make_ascent(self, noise)
            return Method(WordEmbedding(), search, Divergence(), Add(self.weight), dropout=self.dropout)
        if self.preset == "paper":
            search = make_ascent(self, noise, Normalized(p=INF))
            return Method(WordEmbedding(skip=()), search, Divergence(), Add(self.weight), dropout=self.dropout)
        search = make_ascent(self, noise, RawGradient(), RescaleTo(self.max_norm, eps=1e-6))
        if self.preset == "smart-pytorch":
            site, goal = WordEmbedding(skip=()), Divergence("kl")
            compare = Divergence("symmetric_kl", detach="targets", reduction="sum")
        else:
            site, goal = Hidden("embeddings", skip=()), Divergence("mtdnn_stable_kl", reduction="sum")
            compare = Divergence("symmetric_kl", detach="targets")
        return Method(site, search, compare, Add(self.weight), search_objective=goal, dropout=self.dropout)


@register_method("alum")
@dataclass(frozen=True)
class Alum(AscentOptions, RegularizerOptions):
    """SMART at any layer (Liu et al. 2020, ALUM): `layer` is a number or the dotted path of a module.

    The settings are those of `smart`'s recommended preset; ALUM's published code (mt-dnn v0.2) does not run. Special
    tokens are left alone, so a head that reads the class token alone sees nothing of it at the last layer.
    """

    layer: int | str = 0
    """Number of the layer, or the dotted path of a module."""

    def build(self) -> "Method":
        from ..parts import Hidden

        options = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "layer"}
        return replace(Smart(**options).build(), site=Hidden(self.layer))
