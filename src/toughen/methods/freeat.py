from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ..combine.free_replay import FreeReplay
from ..compare import TaskLoss
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..sites import WordEmbedding
from ._common import Start
from .freelb import PRESETS as FREELB
from .freelb import ascend

PRESETS = {"recommended": replace(FREELB["recommended"], steps=2)}


@register_method("freeat")
def freeat(
    *,
    steps: int | None = None,
    step_size: float | None = None,
    init_scale: float | None = None,
    max_norm: float | None = None,
    norm: Literal["l2", "linf"] | None = None,
    dropout: Dropout | None = None,
    growth: float | Sequence[float] | Scheduled | None = None,
    init: Start | None = None,
) -> Method:
    """Free adversarial training (Shafahi et al. 2019): the same batch `steps` times, an update after each pass.

    The perturbation climbs from pass to pass and starts anew with each batch, whose texts have other lengths. Settings
    are those of `freelb`'s recommended preset, with two passes. Its authors divide the number of epochs by `steps`: at
    the same number it makes so many times the updates, and with a high learning rate it then does worse than plain
    training.
    """
    s = choose(
        PRESETS,
        "recommended",
        steps=steps,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        norm=norm,
        dropout=dropout,
        growth=growth,
    )
    search = ascend(s, "recommended", init)
    return Method(WordEmbedding(s.skip), search, TaskLoss(), FreeReplay(s.steps), dropout=s.dropout)
