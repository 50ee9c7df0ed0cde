from collections.abc import Sequence
from dataclasses import dataclass

from ..combine.single_pass import Average
from ..compare import TaskLoss, TaskLossMinusCosine
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import Ascent, Normal, Normalized
from ..sites import WordEmbedding
from ._common import Start, ball, start, units


@dataclass(frozen=True)
class Settings:
    step_size: float
    init_scale: float
    max_norm: float
    temperature: float = 1.0
    steps: int = 1
    dropout: Dropout = "shared"
    growth: Scheduled = 1.0


PRESETS = {
    "recommended": Settings(step_size=0.003, init_scale=0.0003, max_norm=0.003),
    "original": Settings(step_size=0.1, init_scale=1e-2, max_norm=0.1, dropout="fresh"),
}


@register_method("creat")
def creat(
    preset: str = "recommended",
    *,
    step_size: float | None = None,
    init_scale: float | None = None,
    max_norm: float | None = None,
    temperature: float | None = None,
    steps: int | None = None,
    dropout: Dropout | None = None,
    growth: float | Sequence[float] | Scheduled | None = None,
    init: Start | None = None,
) -> Method:
    """Adversarial training on contextualised representations (Wu et al., ICLR 2023).

    The search raises the task loss and turns the class token's features away from the clean ones; training is on the
    mean of the clean and the perturbed loss.

    Presets:
        recommended: one l2 step of 0.3 % of the embedding's norm, masked, one dropout mask. Ours. At 1 % small models
            did not learn CoLA.
        original: gingasan/CreAT 8f1ee5b: noise 1e-2, one step of 0.1 inside a ball of 0.1, absolute. Padding is masked
            and the cosine is a mean over the batch, where that code perturbs padding and sums.
    """
    s = choose(
        PRESETS,
        preset,
        step_size=step_size,
        init_scale=init_scale,
        max_norm=max_norm,
        temperature=temperature,
        steps=steps,
        dropout=dropout,
        growth=growth,
    )
    ours = preset == "recommended"
    search = Ascent(
        step_size=s.step_size,
        steps=s.steps,
        init=start(init, Normal(s.init_scale)),
        shape=Normalized(p=2, over="example"),
        project=ball(s.max_norm),
        units=units(preset, s.growth),
    )
    return Method(
        site=WordEmbedding() if ours else WordEmbedding(skip=("padding",)),
        search=search,
        compare=TaskLoss(),
        combine=Average(0.5),
        search_objective=TaskLossMinusCosine(s.temperature),
        dropout=s.dropout,
    )
