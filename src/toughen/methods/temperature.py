from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..registry import register_method
from .plain import Plain

if TYPE_CHECKING:
    from ..method import Method


@register_method("temperature")
@dataclass(frozen=True)
class Temperature(Plain):
    """Ordinary fine-tuning with a training temperature: the loss is of the logits over T (Raina et al., ACL 2024).

    The logits stay divided in evaluation, in checkpoints and in the detached model, whose head holds the division. So
    probabilities are those of training, and attacks meet no overconfidence: without the division a model of high
    temperature looks robust to attacks that read probabilities. Add it to methods with a clean loss: `toughen.smart() +
    toughen.temperature()`.
    """

    temperature: float = 256.0
    """What the logits are divided by. The paper's for DeBERTa is 200; a power of two is divided and multiplied without
    rounding, so that a run that goes on from a checkpoint ends with the same bits."""

    def build(self) -> "Method":
        from ..parts import DividedLogits

        return replace(super().build(), constraint=DividedLogits(self.temperature))
