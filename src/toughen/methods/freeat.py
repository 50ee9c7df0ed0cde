from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..options import PresetOptions
from ..registry import register_method
from .freelb import FreeOptions

if TYPE_CHECKING:
    from ..method import Method


@register_method("freeat")
@dataclass(frozen=True, kw_only=True)
class FreeAT(PresetOptions, FreeOptions):
    """Free adversarial training (Shafahi et al. 2019): the same batch `steps` times, an update after each pass.

    The perturbation takes a step between two passes and starts again with each batch, whose texts have other lengths.
    Its authors divide the number of epochs by `steps`: at the same number it makes so many times the updates, and with
    a high learning rate it then does worse than plain training.

    Presets:
        recommended: the settings of `freelb`'s, with two passes. Ours.
        robust: those of `freelb("robust")`, a ball of 3 %, with two passes. Ours; not measured.

    Examples:
        >>> with toughen.freeat().attach(model, tokenizer) as attached:
        ...     loss = attached.backward(model, batch, step=optimizer.step)
    """

    steps: int = 2

    PRESETS: ClassVar = {"recommended": {}, "robust": FreeOptions.ROBUST}

    def build(self) -> "Method":
        from ..parts import FreeReplay, Method, TaskLoss, WordEmbedding

        return Method(WordEmbedding(), self.ascent(), TaskLoss(), FreeReplay(self.steps), dropout=self.dropout)
