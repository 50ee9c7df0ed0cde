"""WHERE to perturb, without a hook: dropout itself, the weights, or nowhere."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from .base import Detach, PerturbationSource


class Hookless:
    """A site that changes nothing inside a forward pass."""

    inside_layers: ClassVar[bool] = False

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach:
        return lambda: None


@dataclass(frozen=True)
class NoSite(Hookless):
    """No perturbation and no second pass: the clean pass is what is compared."""

    target: ClassVar[str] = "none"


@dataclass(frozen=True)
class SecondDropoutMask(Hookless):
    """A second pass under another dropout mask; nothing else is perturbed (R-Drop)."""

    target: ClassVar[str] = "dropout"


@dataclass(frozen=True)
class Weights(Hookless):
    """The trainable weights. `only` keeps those whose name contains one of the words; `skip` leaves some out."""

    target: ClassVar[str] = "weights"

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def parameters(self, model: nn.Module) -> list[nn.Parameter]:
        """The weights that have a gradient now."""
        return [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
            and (not self.only or any(word in name for word in self.only))
            and not any(word in name for word in self.skip)
        ]
