from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..options import AscentOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("pgd")
@dataclass(frozen=True)
class PGD(AscentOptions):
    """Projected gradient descent (Madry et al. 2018) on embeddings: train on the end of the ascent alone.

    Presets:
        recommended: three l2 steps of 0.05 % of the embedding's norm inside a ball of 0.1 %. Ours. Training sees the
            perturbed text alone: at 0.3 % small models hardly learnt CoLA, at 1 % neither it nor RTE.
        absolute: step 0.3 inside a ball of 1.0 from zero, the numbers common in text code (bert4torch).
    """

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""
    _: KW_ONLY
    steps: int = 3
    step_size: float = 0.0005
    init_scale: float = 0.0002
    max_norm: float = 0.001

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "recommended": {},
        "absolute": {"step_size": 0.3, "init_scale": 0.0, "max_norm": 1.0},
    }

    def build(self) -> "Method":
        from ..combine.single_pass import PerturbedOnly
        from ..compare import TaskLoss
        from ..method import Method
        from ..search import Ascent, Normalized, UniformBall, Zeros
        from ..sites import WordEmbedding
        from ._common import make_init, make_projection, make_units

        noise = make_init(self.init, UniformBall(self.init_scale) if self.init_scale else Zeros())
        direction, scale = Normalized(p=2, per="example"), make_units(self.preset, self.radius_schedule)
        search = Ascent(self.step_size, self.steps, noise, direction, make_projection(self.max_norm), scale)
        return Method(WordEmbedding(), search, TaskLoss(), PerturbedOnly(), dropout=self.dropout)
