"""The losses on logits of smart-pytorch and mt-dnn, with their signatures; adversarialSA's divergence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import torch.nn.functional as F
from torch import Tensor

from ..compare.divergence import mtdnn_stable_kl
from ..compare.rowwise import to_float32

Reduction: TypeAlias = Literal["batchmean", "sum", "mean", "none"]


def reduced(elements: Tensor, reduction: str) -> Tensor:
    """Apply a reduction of `torch.nn.functional.kl_div`."""
    if reduction == "none":
        return elements
    if reduction == "mean":
        return elements.mean()
    if reduction not in ("batchmean", "sum"):
        raise ValueError(f"{reduction} is not a reduction: give batchmean, sum, mean or none.")
    total = elements.sum()
    return total / elements.shape[0] if reduction == "batchmean" else total


def log_probabilities(logits: Tensor) -> Tensor:
    return F.log_softmax(logits, dim=-1)


def kl_loss(input: Tensor, target: Tensor, reduction: Reduction = "batchmean") -> Tensor:
    """Compute KL(target || input) of logits. The original's gradient is NaN if a probability underflows."""
    p, q = log_probabilities(input), log_probabilities(target)
    return reduced(q.exp() * (q - p), reduction)


def sym_kl_loss(input: Tensor, target: Tensor, reduction: Reduction = "sum", alpha: float = 1.0) -> Tensor:
    """Add both KLs, each with a fixed target; `alpha` scales the first alone, and the default sums over the batch."""
    return alpha * kl_loss(input, target.detach(), reduction) + kl_loss(target, input.detach(), reduction)


def js_loss(input: Tensor, target: Tensor, reduction: Reduction = "sum", alpha: float = 1.0) -> Tensor:
    """Compute KL(middle || input) + KL(middle || target) with the middle fixed, as the original; not Jensen-Shannon."""
    p, q = log_probabilities(input), log_probabilities(target)
    middle = (0.5 * (p.exp() + q.exp())).detach()
    elements = [middle * (middle.clamp(min=1e-300 if p.element_size() == 8 else 1e-37).log() - x) for x in (p, q)]
    return alpha * (reduced(elements[0], reduction) + reduced(elements[1], reduction))


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return adversarialSA's divergence: half of both KLs, divided by the first dimension, gradient to both.

    Kept: one column is taken as one distribution over the batch, so a shift of all predictions costs nothing. For a
    regression that is right use `toughen.asa()`.
    """
    if p.shape[-1] == 1:
        p, q = p.flatten(), q.flatten()
    return 0.5 * (kl_loss(p, q) + kl_loss(q, p))


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
    def loss(input: Tensor, target: Tensor, reduction: object) -> Tensor:
        return stable_kl(input, target.detach())


class NsSymKlCriterion(_Criterion):
    """Compute `stable_kl` both ways, each with a fixed second argument."""

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: object) -> Tensor:
        return stable_kl(input, target.detach()) + stable_kl(target, input.detach())


class JSCriterion(_Criterion):
    """Compute the KL of the fixed middle from both sides."""

    loss = staticmethod(js_loss)


class HLCriterion(_Criterion):
    """Compute the mean squared difference of root probabilities. The original detaches both; ours does not."""

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: object) -> Tensor:
        # exp(log p / 2) is the root of p, and its gradient is finite at p = 0.
        return F.mse_loss((log_probabilities(input) / 2).exp(), (log_probabilities(target) / 2).exp())


class MseCriterion(_Criterion):
    """Compute mt-dnn's squared error: only the first argument is squeezed, so (B, 1) with (B, 1) becomes B x B.

    For a correct regression loss use `toughen.smart()`, whose comparison is the head's own.
    """

    @staticmethod
    def loss(input: Tensor, target: Tensor, reduction: object) -> Tensor:
        squares = (input.squeeze() - target).square()
        return squares.sum() if reduction == "sum" else squares.mean()
