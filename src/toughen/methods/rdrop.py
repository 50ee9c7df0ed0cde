from ..combine.single_pass import Add
from ..compare import Divergence, TaskAndDivergence
from ..method import Method
from ..registry import named
from ..search import nothing
from ..sites import DropoutMask


@named("rdrop")
def rdrop(weight: float = 1.0) -> Method:
    """R-Drop (Liang et al., NeurIPS 2021): two dropout masks must predict the same.

    The loss is the mean of both passes' task losses plus `weight` times half the symmetric KL, as in the paper; the KL
    is a mean over examples, where dropreg/R-Drop sums it.
    """
    return Method(
        site=DropoutMask(),
        search=nothing(),
        compare=TaskAndDivergence(Divergence(), 0.5 * weight),
        combine=Add(1.0),
        dropout="fresh",
    )
