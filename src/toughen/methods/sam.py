from ..combine.sharpness import SharpnessAware
from ..compare import TaskLoss
from ..internal.rng import Dropout
from ..method import Method
from ..registry import register_method
from ..search import RelativeWeightAscent, SharpnessAscent
from ..sites import Weights


@register_method("sam")
def sam(rho: float = 0.02, *, dropout: Dropout = "shared") -> Method:
    """Sharpness-aware minimisation (Foret et al., ICLR 2021): the gradient at weights moved uphill by `rho`.

    The direction is that of the whole update: accumulation and several processes do not change it.
    """
    return Method(Weights(), SharpnessAscent(rho), TaskLoss(), SharpnessAware(), dropout=dropout)


@register_method("asam")
def asam(rho: float = 0.2, *, eta: float = 0.01, dropout: Dropout = "shared") -> Method:
    """Adaptive SAM (Kwon et al., ICML 2021): as `sam`, each weight measured in units of its own size plus `eta`."""
    return Method(
        Weights(), SharpnessAscent(rho, adaptive=True, eta=eta), TaskLoss(), SharpnessAware(), dropout=dropout
    )


@register_method("awp")
def awp(step_size: float = 1.0, *, max_norm: float = 1e-4, dropout: Dropout = "shared") -> Method:
    """Adversarial weight perturbation (Wu et al., NeurIPS 2020), in the form common for text.

    Each weight matrix moves along its gradient by `step_size` of its norm, no element by more than `max_norm` of
    itself; the gradient there is the update's. Biases and norms' offsets are left alone.
    """
    search = RelativeWeightAscent(step_size, max_norm)
    return Method(Weights(only=("weight",)), search, TaskLoss(), SharpnessAware(), dropout=dropout)
