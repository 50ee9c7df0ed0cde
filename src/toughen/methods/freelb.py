from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..combine.accumulate import Accumulate
from ..compare import TaskLoss
from ..errors import MethodError
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import INF, Ascent, Normalized, Uniform, UniformBall
from ..sites import WordEmbedding
from ..sites.embedding import RECOMMENDED_SKIP
from ..sites.token_mask import Skip
from ._common import Start, ball, start, units


@dataclass(frozen=True)
class Settings:
    steps: int
    step_size: float
    init_scale: float
    max_norm: float
    norm: Literal["l2", "linf"] = "l2"
    dropout: Dropout = "shared"
    skip: Skip = ("padding",)
    average: bool = True
    floor: float = 1e-8
    growth: Scheduled = 1.0


PRESETS = {
    "recommended": Settings(
        steps=3, step_size=0.0005, init_scale=0.0002, max_norm=0.001, skip=RECOMMENDED_SKIP, floor=1e-30
    ),
    "original": Settings(steps=3, step_size=0.1, init_scale=0.0, max_norm=0.0),
    "fairseq": Settings(steps=3, step_size=0.1, init_scale=0.1, max_norm=0.3),
    "paragen": Settings(
        steps=3, step_size=0.1, init_scale=0.05, max_norm=0.06, skip=(1,), average=False, floor=1e-30, dropout="fresh"
    ),
}


def ascend(s: Settings, preset: str, init: Start | None) -> Ascent:
    """A step between two passes; FreeAT's, too."""
    if s.norm not in ("l2", "linf"):
        raise MethodError(f"norm={s.norm!r} is not known. Choose 'l2' or 'linf'.")
    p = 2.0 if s.norm == "l2" else INF
    noise = start(init, UniformBall(s.init_scale) if s.norm == "l2" else Uniform(s.init_scale))
    ours = preset == "recommended"
    return Ascent(
        step_size=s.step_size,
        steps=s.steps - 1,
        init=noise,
        shape=Normalized(p, "example", floor=s.floor),
        project=ball(s.max_norm, p),
        units=units(preset, s.growth),
        mask_gradient=ours,
    )


@register_method("freelb")
def freelb(
    preset: str = "recommended",
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
    """Free large-batch adversarial training (Zhu et al., ICLR 2020): every pass of the ascent also trains the weights.

    `steps` counts forward and backward passes; the perturbation climbs between them. `max_norm` 0 is no ball.

    Presets:
        recommended: three passes, l2 steps of 0.05 % of the embedding's norm inside a ball of 0.1 %, masked. Ours. All
            of training sees perturbed texts: with a ball of 1 % small models did not learn CoLA, with 3 % not RTE.
        original: zhuchen03/FreeLB eb23701, run_glue_freelb.py, with its RTE row for ALBERT: step 0.1 from zero, no
            ball. Noise starts as U(-1, 1) * init_scale / sqrt(length * width); padding is masked in the start only.
        fairseq: the same repository's RoBERTa code with its MNLI row. Its `adv_steps` counts passes after the first,
            so its 2 is 3 here. Its optional clean regulariser is off, as there.
        paragen: bytedance/ParaGen 4e33a90: gradients of the three passes summed, not averaged; token id 1 taken for
            padding whatever the tokenizer says; fresh dropout.
    """
    s = choose(
        PRESETS,
        preset,
        steps=steps,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        norm=norm,
        dropout=dropout,
        growth=growth,
    )
    site, combine = WordEmbedding(s.skip), Accumulate(s.steps, s.average)
    return Method(site, ascend(s, preset, init), TaskLoss(), combine, dropout=s.dropout)
