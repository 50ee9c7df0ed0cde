"""mt-dnn's adversarial losses, called as there: `SymKlCriterion(alpha)(input, target)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from ..compare.divergence import mtdnn_stable_kl
from ..compare.rowwise import to_float32
from .losses import js_loss, kl_loss, log_probabilities, sym_kl_loss


def stable_kl(logit: Tensor, target: Tensor, epsilon: float = 1e-6, reduce: bool = True) -> Tensor:
    """Return twice the difference of log-odds under the first argument's probabilities. Not a KL; can be negative."""
    p, y = (log_probabilities(to_float32(x).reshape(-1, x.shape[-1])) for x in (logit, target))
    total = mtdnn_stable_kl(p, y, epsilon).sum()
    return total / p.shape[0] if reduce else total


@dataclass(frozen=True)
class _Criterion:
    alpha: float = 1.0
    name: str = ""
    loss: ClassVar[Callable[[Tensor, Tensor, Any], Tensor]]

    def __call__(
        self, input: Tensor, target: Tensor, weight: Any = None, ignore_index: int = -1, reduction: str = "batchmean"
    ) -> Tensor:
        return self.alpha * type(self).loss(to_float32(input), to_float32(target), reduction)


class KlCriterion(_Criterion):
    """Compute KL(target || input) with gradients to both."""

    loss = staticmethod(kl_loss)


class SymKlCriterion(_Criterion):
    """Add both KLs, each with a fixed target."""

    loss = staticmethod(sym_kl_loss)


class NsKlCriterion(_Criterion):
    """Compute `stable_kl` with the second argument fixed."""

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return stable_kl(input, target.detach())


class NsSymKlCriterion(_Criterion):
    """Compute `stable_kl` both ways, each with a fixed second argument."""

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        return stable_kl(input, target.detach()) + stable_kl(target, input.detach())


class JSCriterion(_Criterion):
    """Compute the KL of the fixed middle from both sides."""

    loss = staticmethod(js_loss)


class HLCriterion(_Criterion):
    """Compute the mean squared difference of root probabilities. The original detaches both; ours does not."""

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        # exp(log p / 2) is the root of p, and its gradient is finite at p = 0.
        return F.mse_loss((log_probabilities(input) / 2).exp(), (log_probabilities(target) / 2).exp())


class MseCriterion(_Criterion):
    """Compute mt-dnn's squared error: only the first argument is squeezed, so (B, 1) with (B, 1) becomes B x B.

    For a correct regression loss use `toughen.smart()`, whose comparison is the head's own.
    """

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: Any) -> Tensor:
        squares = (input.squeeze() - target).square()
        return squares.sum() if reduction == "sum" else squares.mean()
