from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..options import AscentOptions, PresetOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("pgd")
@dataclass(frozen=True, kw_only=True)
class PGD(PresetOptions, AscentOptions):
    """Projected gradient descent (Madry et al. 2018) on embeddings: train on the end of the ascent alone.

    Presets:
        recommended: three l2 steps of 0.05 % of the embedding's norm inside a ball of 0.1 %. Ours. Training sees the
            perturbed text alone: at 0.3 % small models hardly learnt CoLA, at 1 % neither it nor RTE.
        robust: the same with thirty times the lengths, a ball of 3 %, the radius of `freelb("robust")`. Ours; not
            measured.
        absolute: step 0.3 inside a ball of 1.0 from zero, the numbers common in text code (bert4torch).
    """

    steps: int = 3
    step_size: float = 0.0005
    init_scale: float = 0.0002
    max_norm: float = 0.001

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": {"step_size": 0.015, "init_scale": 0.006, "max_norm": 0.03},
        "absolute": {"step_size": 0.3, "init_scale": 0.0, "max_norm": 1.0},
    }

    def build(self) -> "Method":
        from ..parts import Method, PerturbedOnly, TaskLoss, UniformBall, WordEmbedding, Zeros
        from ._common import make_ascent

        search = make_ascent(self, UniformBall(self.init_scale) if self.init_scale else Zeros())
        return Method(WordEmbedding(), search, TaskLoss(), PerturbedOnly(), dropout=self.dropout)
