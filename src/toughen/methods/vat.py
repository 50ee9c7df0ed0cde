from collections.abc import Sequence
from dataclasses import dataclass

from ..combine.single_pass import Add
from ..compare import Divergence
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import Normal, PowerIteration
from ..sites import WordEmbedding
from ._common import Start, start, units


@dataclass(frozen=True)
class Settings:
    weight: float
    max_norm: float
    probe: float
    steps: int = 1
    dropout: Dropout = "shared"
    growth: Scheduled = 1.0


PRESETS = {
    "recommended": Settings(weight=1.0, max_norm=0.01, probe=0.001),
    "robust": Settings(weight=1.0, max_norm=0.03, probe=0.003),
    "paper": Settings(weight=1.0, max_norm=5.0, probe=0.1),
}


@register_method("vat")
def vat(
    preset: str = "recommended",
    *,
    weight: float | None = None,
    max_norm: float | None = None,
    probe: float | None = None,
    steps: int | None = None,
    dropout: Dropout | None = None,
    growth: float | Sequence[float] | Scheduled | None = None,
    init: Start | None = None,
) -> Method:
    """Virtual adversarial training (Miyato et al. 2016, 2018): needs no labels, so unlabelled batches may be mixed in.

    The direction is found by power iteration from a random probe; the clean prediction is the fixed target.

    Presets:
        recommended: a perturbation of 1 % of the embedding's norm, masked, one dropout mask. Ours.
        robust: the same with 3 %: more accuracy under attack, and less on tasks that are hard to learn. Ours.
        paper: l2 radius 5 with probe 0.1 in absolute numbers, those of adversarial training for text (Miyato et al.
            2017), where embeddings are normalised first; here they are not.
    """
    s = choose(
        PRESETS,
        preset,
        weight=weight,
        max_norm=max_norm,
        probe=probe,
        steps=steps,
        dropout=dropout,
        growth=growth,
    )
    scale = units(preset, s.growth)
    search = PowerIteration(s.max_norm, s.probe, s.steps, units=scale, init=start(init, Normal(1.0)))
    compare = Divergence("kl", stop="clean")
    return Method(WordEmbedding(), search, compare, Add(s.weight, optional_labels=True), dropout=s.dropout)
