from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..options import AscentOptions, PresetOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("creat")
@dataclass(frozen=True, kw_only=True)
class CreAT(PresetOptions, AscentOptions):
    """Adversarial training on contextualised representations (Wu et al., ICLR 2023).

    The search raises the task loss and turns the class token's features away from the clean ones; training is on the
    mean of the clean and the perturbed loss.

    Presets:
        recommended: one l2 step of 0.3 % of the embedding's norm, masked, one dropout mask. Ours. At 1 % small models
            did not learn CoLA.
        original: gingasan/CreAT 8f1ee5b: noise 1e-2, one step of 0.1 inside a ball of 0.1, absolute. Padding is masked
            and the cosine is a mean over the batch, where that code perturbs padding and sums.
    """

    step_size: float = 0.003
    init_scale: float = 0.0003
    max_norm: float = 0.003
    temperature: float = 1.0
    """Temperature of the features' cosine."""

    PRESETS: ClassVar = {
        "recommended": {},
        "original": {"step_size": 0.1, "init_scale": 1e-2, "max_norm": 0.1, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..parts import Average, Method, Normal, TaskLoss, TaskLossMinusCosine, WordEmbedding
        from ._common import make_ascent

        return Method(
            site=WordEmbedding() if self.preset == "recommended" else WordEmbedding(skip=("padding",)),
            search=make_ascent(self, Normal(self.init_scale)),
            compare=TaskLoss(),
            combine=Average(0.5),
            search_objective=TaskLossMinusCosine(self.temperature),
            dropout=self.dropout,
        )
