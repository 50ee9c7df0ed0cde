"""mt-dnn's adversarial losses, called as there: `SymKlCriterion(alpha)(input, target)`."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..compare.divergence import mtdnn_stable_kl
from ..compare.rowwise import to_float32
from .losses import js_loss, kl_loss, log_probabilities


def stable_kl(logit: Tensor, target: Tensor, epsilon: float = 1e-6, reduce: bool = True) -> Tensor:
    """Return twice the difference of log-odds under the first argument's probabilities. Not a KL; can be negative."""
    p, y = (log_probabilities(to_float32(x).reshape(-1, x.shape[-1])) for x in (logit, target))
    total = mtdnn_stable_kl(p, y, epsilon).sum()
    return total / p.shape[0] if reduce else total


@dataclass(frozen=True)
class _Criterion:
    alpha: float = 1.0
    name: str = ""

    def __call__(
        self, input: Tensor, target: Tensor, weight: Any = None, ignore_index: int = -1, reduction: str = "batchmean"
    ) -> Tensor:
        return self.alpha * self.loss(to_float32(input), to_float32(target), reduction)

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        raise TypeError("Use one of the named criteria.")


@dataclass(frozen=True)
class KlCriterion(_Criterion):
    """Compute KL(target || input) with gradients to both."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return kl_loss(input, target, reduction)


@dataclass(frozen=True)
class SymKlCriterion(_Criterion):
    """Add both KLs, each with a fixed target."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return kl_loss(input, target.detach(), reduction) + kl_loss(target, input.detach(), reduction)


@dataclass(frozen=True)
class NsKlCriterion(_Criterion):
    """Compute `stable_kl` with the second argument fixed."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return stable_kl(input, target.detach())


@dataclass(frozen=True)
class NsSymKlCriterion(_Criterion):
    """Compute `stable_kl` both ways, each with a fixed second argument."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return stable_kl(input, target.detach()) + stable_kl(target, input.detach())


@dataclass(frozen=True)
class JSCriterion(_Criterion):
    """Compute the KL of the fixed middle from both sides."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return js_loss(input, target, reduction)


@dataclass(frozen=True)
class HLCriterion(_Criterion):
    """Compute the mean squared difference of root probabilities. The original detaches both; ours does not."""

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        # exp(log p / 2) is the root of p, and its gradient is finite at p = 0.
        return F.mse_loss((log_probabilities(input) / 2).exp(), (log_probabilities(target) / 2).exp())


@dataclass(frozen=True)
class MseCriterion(_Criterion):
    """Compute mt-dnn's squared error: only the first argument is squeezed, so (B, 1) with (B, 1) becomes B x B.

    For a correct regression loss use `toughen.smart()`, whose comparison is the head's own.
    """

    def loss(self, input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        squares = (input.squeeze() - target).square()
        return squares.sum() if reduction == "sum" else squares.mean()
