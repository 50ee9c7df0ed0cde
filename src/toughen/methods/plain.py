from ..combine.single_pass import PerturbedOnly
from ..compare import TaskLoss
from ..method import Method
from ..registry import register_method
from ..search import no_perturbation
from ..sites import NoSite


@register_method("plain")
def plain() -> Method:
    """Ordinary fine-tuning: one clean pass. The baseline of every comparison."""
    return Method(site=NoSite(), search=no_perturbation(), compare=TaskLoss(), combine=PerturbedOnly())
