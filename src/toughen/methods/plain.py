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
        from ..parts import Method, NoSite, PerturbedOnly, TaskLoss, no_perturbation

        return Method(site=NoSite(), search=no_perturbation(), compare=TaskLoss(), combine=PerturbedOnly())
