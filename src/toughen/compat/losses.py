"""smart-pytorch's losses on logits, with its signatures, reductions and fixed targets; adversarialSA's divergence."""

from typing import Literal, TypeAlias

import torch.nn.functional as F
from torch import Tensor

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


def kl_elements(source: Tensor, target: Tensor) -> Tensor:
    """Return the summands of KL(target || source) from log-probabilities, finite if a probability underflows."""
    return target.exp() * (target - source)


def kl_loss(input: Tensor, target: Tensor, reduction: Reduction = "batchmean") -> Tensor:
    """Compute KL(target || input) of logits. The original's gradient is NaN if a probability underflows."""
    return reduced(kl_elements(log_probabilities(input), log_probabilities(target)), reduction)


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
