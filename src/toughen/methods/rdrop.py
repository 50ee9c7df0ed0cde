from ..combine.single_pass import Add
from ..compare import Divergence, TaskLossAndDivergence
from ..method import Method
from ..registry import register_method
from ..search import no_perturbation
from ..sites import SecondDropoutMask


@register_method("rdrop")
def rdrop(weight: float = 1.0) -> Method:
    """R-Drop (Liang et al., NeurIPS 2021): two dropout masks must predict the same.

    The loss is the mean of both passes' task losses plus `weight` times half the symmetric KL, as in the paper; the KL
    is a mean over examples, where dropreg/R-Drop sums it.
    """
    return Method(
        site=SecondDropoutMask(),
        search=no_perturbation(),
        compare=TaskLossAndDivergence(Divergence(), 0.5 * weight),
        combine=Add(1.0),
        dropout="fresh",
    )
