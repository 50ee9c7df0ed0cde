from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import MethodOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("rdrop")
@dataclass(frozen=True)
class RDrop(MethodOptions):
    """R-Drop (Liang et al., NeurIPS 2021): two dropout masks must predict the same.

    The loss is the mean of both passes' task losses plus `weight` times half the symmetric KL, as in the paper; the KL
    is a mean over examples, where dropreg/R-Drop sums it.
    """

    weight: float = 1.0
    """Weight of the added term in the loss."""

    def build(self) -> "Method":
        from ..parts import Add, Divergence, Method, SecondDropoutMask, TaskLossAndDivergence, no_perturbation

        return Method(
            site=SecondDropoutMask(),
            search=no_perturbation(),
            compare=TaskLossAndDivergence(Divergence(), 0.5 * self.weight),
            combine=Add(1.0),
            dropout="fresh",
        )
