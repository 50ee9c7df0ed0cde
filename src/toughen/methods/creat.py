from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..options import AscentOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("creat")
@dataclass(frozen=True)
class CreAT(AscentOptions):
    """Adversarial training on contextualised representations (Wu et al., ICLR 2023).

    The search raises the task loss and turns the class token's features away from the clean ones; training is on the
    mean of the clean and the perturbed loss.

    Presets:
        recommended: one l2 step of 0.3 % of the embedding's norm, masked, one dropout mask. Ours. At 1 % small models
            did not learn CoLA.
        original: gingasan/CreAT 8f1ee5b: noise 1e-2, one step of 0.1 inside a ball of 0.1, absolute. Padding is masked
            and the cosine is a mean over the batch, where that code perturbs padding and sums.
    """

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""
    _: KW_ONLY
    step_size: float = 0.003
    init_scale: float = 0.0003
    max_norm: float = 0.003
    temperature: float = 1.0
    """Temperature of the features' cosine."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "recommended": {},
        "original": {"step_size": 0.1, "init_scale": 1e-2, "max_norm": 0.1, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..combine.single_pass import Average
        from ..compare import TaskLoss, TaskLossMinusCosine
        from ..method import Method
        from ..search import Ascent, Normal, Normalized
        from ..sites import WordEmbedding
        from ._common import make_init, make_projection, make_units

        search = Ascent(
            step_size=self.step_size,
            steps=self.steps,
            init=make_init(self.init, Normal(self.init_scale)),
            direction=Normalized(p=2, per="example"),
            project=make_projection(self.max_norm),
            units=make_units(self.preset, self.radius_schedule),
        )
        return Method(
            site=WordEmbedding() if self.preset == "recommended" else WordEmbedding(skip=("padding",)),
            search=search,
            compare=TaskLoss(),
            combine=Average(0.5),
            search_objective=TaskLossMinusCosine(self.temperature),
            dropout=self.dropout,
        )
