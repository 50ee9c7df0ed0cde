from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import MethodError
from ..options import DropoutOptions, PresetOptions, Schedule
from ..registry import register_method
from ..schedules import scheduled

if TYPE_CHECKING:
    from ..method import Method


@register_method("asa")
@dataclass(frozen=True, kw_only=True)
class ASA(PresetOptions, DropoutOptions):
    """Adversarial self-attention (Wu et al., AAAI 2023): the prediction must hold when attention pairs are hidden.

    An adversary in each layer hides the pairs that change the prediction most, and pays `tau` squared for hiding. It
    learns by gradient reversal in the model's own backward pass. Attach before you make the optimizer.

    `weight`, `temperature` and `adversary_weight` may change over the training: (start, end), (start, end, duration) or
    a LinearSchedule. `adversary_rate` is the adversary's learning rate as a multiple of the optimizer's. `layers`
    chooses layers, `per_head` gives each head a mask of its own.

    Presets:
        recommended: pairs are drawn from a binary concrete distribution, 90 % visible at first; the price is on the
            share of hidden pairs, so it does not grow with length; padding is neither attended nor counted; no query
            loses all keys; divergence by the kind of head; one dropout mask for both passes. Ours.
        original: gingasan/adversarialSA 049af10: no noise (theirs cancels itself), score above 0 is visible, additive
            -10000 in place of the padding mask, numbers of pairs counted with padding's rows, KL over the batch for
            regression, fresh dropout; BERT zeroes hidden logits first. Token labels on padding are left out, as its
            head does; a batch without labels has the added term alone. Not repeated: its RoBERTa has no dropout on
            attention. The price counts padding, which the authors' scripts add up to max_length:
            data.pad_to_max_length does so in a run.
    """

    weight: Schedule = 0.3
    """Weight of the added term in the loss."""
    tau: float = 0.5
    """Price of hiding attention pairs, squared."""
    temperature: Schedule = 1.0
    """Temperature of the drawn masks."""
    visible: float = 0.9
    """Share of attention pairs visible at the start."""
    layers: Sequence[int] | None = None
    """Numbers of the layers; by default all."""
    per_head: bool = False
    """A mask of its own for each head."""
    rank: int | None = 64
    """Width of the adversary's projections."""
    adversary_rate: float = 1.0
    """The adversary's learning rate, as a multiple of the optimizer's."""
    adversary_weight: Schedule = 1.0
    """Weight of the adversary's own gradient."""

    PRESETS: ClassVar = {
        "recommended": {},
        "original": {"weight": 1.0, "visible": 0.5, "rank": None, "dropout": "fresh"},
    }

    def __post_init__(self) -> None:
        chosen: Any = self.layers  # one number is easily written
        if chosen is not None and (isinstance(chosen, (int, str)) or not all(isinstance(n, Integral) for n in chosen)):
            raise MethodError(f"layers={chosen!r}: give a list of layers by number, e.g. layers=[0, -1].")
        super().__post_init__()

    def build(self) -> "Method":
        from ..compare import BatchSumDivergence, Divergence, DivergenceWithBudget
        from ..parts import Add, AttentionLogits, GradientReversalAdversary, Method

        original = self.preset == "original"
        return Method(
            site=AttentionLogits(None if self.layers is None else tuple(self.layers), original_code=original),
            search=GradientReversalAdversary(
                scheduled(self.temperature),
                self.visible,
                self.rank,
                self.per_head,
                self.adversary_rate,
                scheduled(self.adversary_weight),
                original_code=original,
            ),
            compare=DivergenceWithBudget(BatchSumDivergence() if original else Divergence(), self.tau, total=original),
            combine=Add(scheduled(self.weight), optional_labels=original),
            dropout=self.dropout,
        )
