from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import MethodOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("plain")
@dataclass(frozen=True)
class Plain(MethodOptions):
    """Ordinary fine-tuning: one clean pass. The baseline of every comparison."""

    def build(self) -> "Method":
        from ..combine.single_pass import PerturbedOnly
        from ..compare import TaskLoss
        from ..method import Method
        from ..search import no_perturbation
        from ..sites import NoSite

        return Method(site=NoSite(), search=no_perturbation(), compare=TaskLoss(), combine=PerturbedOnly())
