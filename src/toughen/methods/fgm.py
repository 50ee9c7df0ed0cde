from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import MethodError
from ..options import Dropout, MethodOptions, Schedule
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method

_TABLES = ("word_embeddings", "embed_tokens", "tok_embeddings", "wte", "shared.weight")


@register_method("fgm")
@dataclass(frozen=True)
class FGM(MethodOptions):
    """Fast gradient method (Miyato et al. 2017): the clean loss and the loss one normalised step uphill, summed.

    The clean pass's own backward gives the direction, so the cost is two passes.

    Presets:
        recommended: each text's embedding moves by 0.3 % of its norm. Ours. At 1 % small models did not learn CoLA.
        matrix: the form of competitions (bert4keras, bert4torch): the embedding *matrix* moves by 1.0 along its
            gradient, so that all texts of the update share one perturbation.
    """

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""
    _: KW_ONLY
    step_size: float = 0.003
    """Length of the step; in the recommended preset a share of the embedding's norm."""
    dropout: Dropout = "shared"
    """One dropout mask for all passes of a batch (shared), one for each (fresh), or none (off)."""
    radius_schedule: Schedule = 1.0
    """Factor on the step; [start, end] or [start, end, duration] if it grows over the training."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "recommended": {},
        "matrix": {"step_size": 1.0, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..combine.accumulate import Accumulate
        from ..combine.sharpness import SharpnessAware
        from ..compare import TaskLoss
        from ..method import Method
        from ..search import Ascent, Normalized, SharpnessAscent
        from ..sites import Weights, WordEmbedding
        from ._common import make_units

        if self.preset == "matrix":
            if self.radius_schedule != 1.0:
                raise MethodError("fgm('matrix') moves weights, whose step does not grow: leave radius_schedule out.")
            return Method(
                site=Weights(only=_TABLES),
                search=SharpnessAscent(self.step_size),
                compare=TaskLoss(),
                combine=SharpnessAware(keep_clean_gradient=True),
                dropout=self.dropout,
            )
        scale = make_units(self.preset, self.radius_schedule)
        search = Ascent(self.step_size, steps=1, direction=Normalized(p=2, per="example"), units=scale)
        return Method(WordEmbedding(), search, TaskLoss(), Accumulate(2, average=False), dropout=self.dropout)
