from ..combine.single_pass import Replace
from ..compare import TaskLoss
from ..method import Method
from ..registry import named
from ..search import nothing
from ..sites import Nowhere


@named("plain")
def plain() -> Method:
    """Ordinary fine-tuning: one clean pass. The baseline of every comparison."""
    return Method(site=Nowhere(), search=nothing(), compare=TaskLoss(), combine=Replace())
