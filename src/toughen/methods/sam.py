from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

from ..options import DropoutOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("sam")
@dataclass(frozen=True)
class SAM(DropoutOptions):
    """Sharpness-aware minimisation (Foret et al., ICLR 2021): the gradient at weights moved by `rho` along it.

    The direction is that of the whole update: accumulation and several processes do not change it.
    """

    rho: float = 0.02
    """How far the weights move along the gradient."""

    def build(self) -> "Method":
        from ..parts import Method, SharpnessAscent, SharpnessAware, TaskLoss, Weights

        return Method(Weights(), SharpnessAscent(self.rho), TaskLoss(), SharpnessAware(), dropout=self.dropout)


@register_method("asam")
@dataclass(frozen=True)
class ASAM(SAM):
    """Adaptive SAM (Kwon et al., ICML 2021): as `sam`, each weight measured in units of its own size plus `eta`."""

    rho: float = 0.2
    _: KW_ONLY
    eta: float = 0.01
    """Added to each weight's size before it is used as a unit."""

    def build(self) -> "Method":
        from ..parts import SharpnessAscent

        return replace(super().build(), search=SharpnessAscent(self.rho, adaptive=True, eta=self.eta))


@register_method("awp")
@dataclass(frozen=True)
class AWP(DropoutOptions):
    """Adversarial weight perturbation (Wu et al., NeurIPS 2020), in the form common for text.

    Each weight matrix moves along its gradient by `step_size` of its norm, no element by more than `max_norm` of
    itself; the gradient there is the update's. Biases and norms' offsets are left alone.
    """

    step_size: float = 1.0
    """Length of the step, as a share of the norm of each weight matrix."""
    _: KW_ONLY
    max_norm: float = 1e-4
    """Share of itself by which an element moves at most."""

    def build(self) -> "Method":
        from ..parts import Method, RelativeWeightAscent, SharpnessAware, TaskLoss, Weights

        search = RelativeWeightAscent(self.step_size, self.max_norm)
        return Method(Weights(only=("weight",)), search, TaskLoss(), SharpnessAware(), dropout=self.dropout)
