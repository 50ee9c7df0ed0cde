from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..errors import MethodError
from ..options import DropoutOptions, PresetOptions, Schedule, SiteOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method

_TABLES = ("word_embeddings", "embed_tokens", "tok_embeddings", "wte", "shared.weight")


@register_method("fgm")
@dataclass(frozen=True, kw_only=True)
class FGM(PresetOptions, SiteOptions, DropoutOptions):
    """Fast gradient method (Miyato et al. 2017): the clean loss and the loss one normalised step uphill, summed.

    The clean pass's own backward gives the direction, so the cost is two passes.

    Presets:
        recommended: each text's embedding moves by 0.3 % of its norm. Ours. At 1 % small models did not learn CoLA.
        robust: the same with 3 %, the radius of `freelb("robust")`. Ours; not measured.
        matrix: the form of competitions (bert4keras, bert4torch): the embedding *matrix* moves by 1.0 along its
            gradient, so that all texts of the update share one perturbation.
    """

    step_size: float = 0.003
    """Length of the step; in the recommended preset a share of the embedding's norm."""
    radius_schedule: Schedule = 1.0
    """Factor on the step; [start, end] or [start, end, duration] if it grows over the training."""

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": {"step_size": 0.03},
        "matrix": {"step_size": 1.0, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..parts import (
            Accumulate,
            Ascent,
            Method,
            SharpnessAscent,
            SharpnessAware,
            TaskLoss,
            Weights,
            WordEmbedding,
        )
        from ._common import make_units

        if self.preset == "matrix":
            if self.radius_schedule != 1.0:
                raise MethodError("fgm('matrix') has no radius_schedule; leave it out.")
            return Method(
                site=Weights(only=_TABLES),
                search=SharpnessAscent(self.step_size),
                compare=TaskLoss(),
                combine=SharpnessAware(keep_clean_gradient=True),
                dropout=self.dropout,
            )
        scale = make_units(self.preset, self.radius_schedule)
        search = Ascent(self.step_size, units=scale)
        return Method(WordEmbedding(), search, TaskLoss(), Accumulate(2, average=False), dropout=self.dropout)
