from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..combine.single_pass import Add
from ..compare import Divergence, DivergenceWithBudget
from ..compare.budget import BatchSumDivergence
from ..errors import MethodError
from ..internal.rng import Dropout
from ..method import Method
from ..presets import choose
from ..registry import register_method
from ..schedules import Scheduled
from ..search import GradientReversalAdversary
from ..sites import AttentionLogits


@dataclass(frozen=True)
class Settings:
    weight: Scheduled
    tau: float
    temperature: Scheduled
    visible: float
    rank: int | None
    adversary_weight: Scheduled = 1.0
    adversary_rate: float = 1.0
    dropout: Dropout = "shared"


PRESETS = {
    "recommended": Settings(weight=0.3, tau=0.5, temperature=1.0, visible=0.9, rank=64),
    "original": Settings(weight=1.0, tau=0.5, temperature=1.0, visible=0.5, rank=None, dropout="fresh"),
}


@register_method("asa")
def asa(
    preset: str = "recommended",
    *,
    weight: float | Sequence[float] | Scheduled | None = None,
    tau: float | None = None,
    temperature: float | Sequence[float] | Scheduled | None = None,
    visible: float | None = None,
    layers: Sequence[int] | None = None,
    per_head: bool = False,
    rank: int | None = None,
    adversary_rate: float | None = None,
    adversary_weight: float | Sequence[float] | Scheduled | None = None,
    dropout: Dropout | None = None,
) -> Method:
    """Adversarial self-attention (Wu et al., AAAI 2023): the prediction must hold when attention pairs are hidden.

    An adversary in each layer hides the pairs that change the prediction most, and pays `tau` squared for hiding. It
    learns by gradient reversal in the model's own backward pass. Attach before you make the optimizer.

    `weight`, `temperature` and `adversary_weight` may change over the training: (start, end), (start, end, over) or a
    Ramp. `adversary_rate` is the adversary's learning rate as a multiple of the optimizer's. `layers` chooses layers,
    `per_head` gives each head a mask of its own.

    Presets:
        recommended: pairs are drawn from a binary concrete distribution, 90 % visible at first; the price is on the
            share of hidden pairs, so it does not grow with length; padding is neither attended nor counted; no query
            loses all keys; divergence by the kind of head; one dropout mask for both passes. Ours.
        original: gingasan/adversarialSA 049af10: no noise (theirs cancels itself), score above 0 is visible, additive
            -10000 in place of the padding mask, numbers of pairs counted with padding's rows, KL over the batch for
            regression, fresh dropout; BERT zeroes hidden logits first. Token labels on padding are left out, as its
            head does. Not repeated: its RoBERTa has no dropout on attention.
    """
    s = choose(
        PRESETS,
        preset,
        weight=weight,
        tau=tau,
        temperature=temperature,
        visible=visible,
        rank=rank,
        adversary_weight=adversary_weight,
        adversary_rate=adversary_rate,
        dropout=dropout,
    )
    chosen: Any = layers  # one number is easily written
    if chosen is not None and (isinstance(chosen, (int, str)) or not all(isinstance(n, Integral) for n in chosen)):
        raise MethodError(f"layers={layers!r}: give a list of layers by number, e.g. layers=[0, -1].")
    original = preset == "original"
    return Method(
        site=AttentionLogits(None if layers is None else tuple(layers), as_published=original),
        search=GradientReversalAdversary(
            s.temperature, s.visible, s.rank, per_head, s.adversary_rate, s.adversary_weight, as_published=original
        ),
        compare=DivergenceWithBudget(BatchSumDivergence() if original else Divergence(), s.tau, total=original),
        combine=Add(s.weight),
        dropout=s.dropout,
    )
