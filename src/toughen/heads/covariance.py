"""Masked second-order statistics of tokens: means, cross-covariances, and the projections they are taken of."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..internal.foreach import at_least_float32, no_autocast

Center = Literal["channel", "scalar", "none"]
Norm = Literal["none", "layer", "batch"]
Activation = Literal["relu", "none"]


def token_weights(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weight of each token in a mean, (B, N): 1/n for the n tokens that `mask` keeps, 0 for the others."""
    if mask is None:
        return tokens.new_full(tokens.shape[:2], 1 / max(1, tokens.shape[1]))
    check_mask(tokens, mask)
    kept = mask.to(tokens.dtype)
    # A row without tokens keeps weight 0 everywhere, so that its covariance is 0 and not 0/0.
    return kept / kept.sum(1, keepdim=True).clamp_min(1)


def check_mask(tokens: Tensor, mask: Tensor | None) -> None:
    """Refuse a mask that is not one number per token."""
    if mask is not None and mask.shape != tokens.shape[:2]:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, but the tokens are {tuple(tokens.shape[:2])} (B, N).")


def weighted_mean(tokens: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of tokens (B, N, C) under weights (B, N), as (B, 1, C)."""
    return torch.bmm(weights[:, None], tokens)


def masked_mean(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean (B, C) of the tokens that the mask keeps, in float32 at least."""
    with no_autocast(tokens):
        full = at_least_float32(tokens)
        return weighted_mean(full, token_weights(full, mask)).squeeze(1)


def cross_covariance(a: Tensor, b: Tensor, mask: Tensor | None = None, *, center: Center = "channel") -> Tensor:
    """Return the cross-covariance (B, q, k) of two views (B, N, q) and (B, N, k) of the same N tokens.

    `mask` (B, N) says which tokens exist; the others enter neither mean nor product, and the sum is divided by
    the number of tokens that exist. `center="scalar"` removes one number per
    example, the mean over tokens and channels, as the published vision code does.

    Args:
        a: The first view.
        b: The second view.
        mask: 1 for tokens that exist.
        center: The mean that is removed: "channel", "scalar" or "none".

    Returns:
        The matrices.

    Raises:
        ValueError: A mask of another shape.

    Examples:
        >>> import torch
        >>> tuple(toughen.heads.cross_covariance(torch.randn(2, 5, 4), torch.randn(2, 5, 3)).shape)
        (2, 4, 3)
    """
    with no_autocast(a):
        a, b = at_least_float32(a), at_least_float32(b)
        weights = token_weights(a, mask)
        return product(centered(a, weights, center), centered(b, weights, center), weights)


def centered(x: Tensor, weights: Tensor, center: Center) -> Tensor:
    """Subtract from tokens (B, N, C) their mean under `weights` (B, N)."""
    if center == "none":
        return x
    mean = weighted_mean(x, weights)
    return x - (mean.mean(-1, keepdim=True) if center == "scalar" else mean)


def product(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of outer products of two views of the tokens."""
    return torch.bmm(a.mT, b * weights[..., None])


class MaskedBatchNorm(nn.BatchNorm1d):
    """Normalise over the tokens that a mask keeps (BatchNorm); without a mask, over all of them."""

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        # torch's own takes no float32 tokens where the weights are in half precision.
        if self.weight.dtype == input.dtype and (mask is None or not self.training):
            return super().forward(input.flatten(0, 1)).view_as(input)
        mean, var = self._batch(input, mask) if self.training else (self.running_mean, self.running_var)
        assert mean is not None
        assert var is not None
        return (input - mean) * torch.rsqrt(var.to(input.dtype) + self.eps) * self.weight + self.bias

    def _batch(self, input: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the tokens that are kept, and update the running ones."""
        kept = input.new_ones(*input.shape[:2], 1) if mask is None else mask.to(input.dtype)[..., None]
        count = kept.sum().clamp_min(1)
        mean = (input * kept).sum((0, 1)) / count
        var = ((input - mean).square() * kept).sum((0, 1)) / count
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                momentum = 0.1 if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                unbiased = var * (count / (count - 1).clamp_min(1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        return mean, var


class CrossCovariance(nn.Module):
    """Compute two projections of the tokens for each of `heads` heads, and their cross-covariance (B, heads, q, k).

    Both projections of all heads are rows of one weight, first the q-side of every head, then the k-side: one matrix
    product. `k=None` shares the q-side and gives an ordinary covariance (B, heads, q, q).

    Args:
        dim: The width of the tokens.
        q: The rows of the matrix.
        k: Its columns.
        heads: How many matrices there are.
        norm: "none", "batch" or "layer", before the activation.
        activation: "relu" or "none".
        bias: Whether the projections have one.
        center: "channel", "scalar" or "none": the mean that is removed.

    Examples:
        >>> import torch
        >>> tuple(toughen.heads.CrossCovariance(16, 4, 3)(torch.randn(2, 5, 16)).shape)
        (2, 1, 4, 3)
    """

    def __init__(
        self,
        dim: int,
        q: int,
        k: int | None,
        *,
        heads: int = 1,
        norm: Norm = "none",
        activation: Activation = "relu",
        bias: bool = True,
        center: Center = "channel",
    ) -> None:
        super().__init__()
        self.q, self.k, self.heads = q, k, heads
        self.relu = activation == "relu"
        self.center: Center = center
        width = heads * (q + (k or 0))
        self.projection = nn.Linear(dim, width, bias=bias)
        self.batch_norm = MaskedBatchNorm(width) if norm == "batch" else None
        self.q_norm = nn.LayerNorm(q) if norm == "layer" else None
        self.k_norm = nn.LayerNorm(k) if norm == "layer" and k else None

    def project(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Project the tokens for all heads, before activation and LayerNorm."""
        x = self.projection(tokens)
        if self.batch_norm is None:
            return x
        with no_autocast(x):
            return self.batch_norm(at_least_float32(x), mask)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = at_least_float32(self.project(tokens, mask))
        weights = token_weights(x, mask)
        with no_autocast(x):
            if self.q_norm is None and self.relu:
                x = x.relu()
            # Channel means need no heads apart, so the whole projection is centred at once.
            at_once = self.center == "channel" and self.q_norm is None
            if at_once:
                x = centered(x, weights, "channel")
            a, b = self._split(x)
            if self.heads > 1:
                weights = weights.repeat_interleave(self.heads, 0)
            if not at_once:
                a, b = centered(a, weights, self.center), centered(b, weights, self.center)
            return product(a, b, weights).unflatten(0, (-1, self.heads))

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the q-side and the k-side as (B * heads, N, q) and (B * heads, N, k)."""
        a = self._per_head(x[..., : self.heads * self.q], self.q, self.q_norm)
        if self.k is None:
            return a, a
        return a, self._per_head(x[..., self.heads * self.q :], self.k, self.k_norm)

    def _per_head(self, x: Tensor, size: int, norm: nn.LayerNorm | None) -> Tensor:
        if self.heads > 1:
            x = x.unflatten(-1, (self.heads, size)).transpose(1, 2).flatten(0, 1)
        if norm is None:
            return x
        # Tokens are float32 here even where the weights are not.
        x = F.layer_norm(x, norm.normalized_shape, norm.weight.to(x.dtype), norm.bias.to(x.dtype), norm.eps)
        return x.relu() if self.relu else x
