from collections.abc import Sequence
from dataclasses import dataclass

from ..combine.single_pass import PerturbedOnly
from ..compare import TaskLoss
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import Ascent, Normalized, UniformBall, Zeros
from ..sites import WordEmbedding
from ._common import Start, ball, start, units


@dataclass(frozen=True)
class Settings:
    steps: int
    step_size: float
    init_scale: float
    max_norm: float
    dropout: Dropout = "shared"
    growth: Scheduled = 1.0


PRESETS = {
    "recommended": Settings(steps=3, step_size=0.0005, init_scale=0.0002, max_norm=0.001),
    "absolute": Settings(steps=3, step_size=0.3, init_scale=0.0, max_norm=1.0),
}


@register_method("pgd")
def pgd(
    preset: str = "recommended",
    *,
    steps: int | None = None,
    step_size: float | None = None,
    init_scale: float | None = None,
    max_norm: float | None = None,
    dropout: Dropout | None = None,
    growth: float | Sequence[float] | Scheduled | None = None,
    init: Start | None = None,
) -> Method:
    """Projected gradient descent (Madry et al. 2018) on embeddings: train on the end of the ascent alone.

    Presets:
        recommended: three l2 steps of 0.05 % of the embedding's norm inside a ball of 0.1 %. Ours. Training sees the
            perturbed text alone: at 0.3 % small models hardly learnt CoLA, at 1 % neither it nor RTE.
        absolute: step 0.3 inside a ball of 1.0 from zero, the numbers common in text code (bert4torch).
    """
    s = choose(
        PRESETS,
        preset,
        steps=steps,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        dropout=dropout,
        growth=growth,
    )
    noise = start(init, UniformBall(s.init_scale) if s.init_scale else Zeros())
    search = Ascent(
        s.step_size, s.steps, noise, Normalized(p=2, over="example"), ball(s.max_norm), units(preset, s.growth)
    )
    return Method(WordEmbedding(), search, TaskLoss(), PerturbedOnly(), dropout=s.dropout)
