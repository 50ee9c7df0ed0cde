"""Pool many tokens into one vector: MGCrP, covariance with a matrix root, average; Triton kernels where they can run.

Eager training of a head is bound by launches, not by arithmetic: forward and backward of the usual pooling (one head,
one singular value, one iteration) are three launches in place of ninety. Values are those of the plain path.
"""

from functools import cache
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..internal.foreach import at_least_float32, no_autocast
from ..kernels import triton_works
from .covariance import CrossCovariance, centered, check_mask, masked_mean, product, token_weights
from .normalize import SVPN, matrix_square_root, svpn, upper_triangle
from .settings import HeadSettings, head_settings

LARGEST = 64, 128  # the smaller and the larger of q and k for which a kernel's registers suffice


def fused_pool(x: Tensor, mask: Tensor | None, start: Tensor, q: int, relu: bool, alpha: float, eps: float) -> Tensor:
    """Compute `svpn` of the cross-covariance of the first `q` channels of x (B, N, C) with the others: (B, q, C - q).

    Tokens where `mask` (B, N) is 0 enter neither mean nor product.
    """
    kernels = _kernels_for(x, q)
    if kernels is None:
        return reference_pool(x, mask, start, q, relu, alpha, eps)
    check_mask(x, mask)
    mask = None if mask is None else mask.contiguous()
    settings = (q, relu, float(alpha), float(eps))
    return cast(Tensor, _FusedPool.apply(x.contiguous(), mask, start.to(torch.float32), kernels, settings))


def reference_pool(
    x: Tensor, mask: Tensor | None, start: Tensor, q: int, relu: bool, alpha: float, eps: float
) -> Tensor:
    """Compute the same by ordinary operations, for gradients of gradients and as the reference in tests."""
    with no_autocast(x):
        x = at_least_float32(x)
        weights = token_weights(x, mask)
        x = centered(x.relu() if relu else x, weights, "channel")
        return svpn(product(x[..., :q], x[..., q:], weights), start, alpha=alpha, eps=eps)


class _FusedPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        mask: Tensor | None,
        start: Tensor,
        kernels: ModuleType,
        settings: tuple[int, bool, float, float],
    ) -> Tensor:
        ctx.kernels, ctx.settings = kernels, settings
        out, *saved = kernels.forward(x, mask, start, *settings)
        ctx.save_for_backward(x, mask, start, *saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, mask, start, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: the backward itself will be differentiated
            out = reference_pool(x, mask, start, *ctx.settings)
            inputs = [value for value, needed in ((x, 0), (start, 2)) if ctx.needs_input_grad[needed]]
            gradients = list(torch.autograd.grad(out, inputs, grad, create_graph=True))
            d_x, d_start = (gradients.pop(0) if ctx.needs_input_grad[needed] else None for needed in (0, 2))
        else:
            d_x, d_start = ctx.kernels.backward(grad.contiguous(), x, mask, start, *saved, *ctx.settings)
        return d_x, None, d_start, None, None


def _kernels_for(x: Tensor, q: int) -> ModuleType | None:
    """Return the Triton kernels if they can run: on the current GPU, for sizes that fit, and not in float64."""
    if not x.is_cuda or x.dtype == torch.float64 or x.get_device() != torch.cuda.current_device():
        return None
    k = x.shape[2] - q
    return _kernels() if min(q, k) <= LARGEST[0] and max(q, k) <= LARGEST[1] else None


@cache
def _kernels() -> ModuleType | None:
    if not triton_works():
        return None
    from . import kernels

    return kernels


class MultiHeadPooling(nn.Module):
    """Pool by MGCrP: for each head a cross-covariance of two projections, normalised by svPN: (B, heads * q * k).

    Any field of `HeadSettings` can be given; the start vector of svPN is shared by the heads, as in the original.

    Args:
        dim: The width of the tokens.
        settings: All options of the head.
        changes: Single options, instead of `settings`.

    Examples:
        >>> import torch
        >>> pool = toughen.heads.MultiHeadPooling(16, q=4, k=3, heads=2)
        >>> tuple(pool(torch.randn(2, 5, 16)).shape)
        (2, 24)
    """

    def __init__(self, dim: int, settings: HeadSettings | None = None, **changes: Any) -> None:
        super().__init__()
        chosen = settings or head_settings(**changes)
        self.covariance = _covariance(dim, chosen, chosen.k)
        self.normalize = _svpn(chosen, chosen.k)
        self.width = chosen.heads * chosen.q * chosen.k
        self.fused_options = (chosen.q, chosen.activation == "relu", chosen.alpha, chosen.eps)
        names = ("heads", "center", "normalization", "exact", "side", "singular_values", "iterations", "start")
        self.fusable = chosen.norm != "layer" and _pick(chosen, *names) == _pick(HeadSettings(), *names)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        # A compiler fuses the plain path by itself.
        if self.fusable and not torch.compiler.is_compiling():
            x = self.covariance.project(tokens, mask)
            return fused_pool(x, mask, cast(Tensor, self.normalize.start), *self.fused_options).flatten(1)
        return self.normalize(self.covariance(tokens, mask)).flatten(1)


class CovariancePooling(nn.Module):
    """Pool by the covariance of one projection, normalised by its matrix square root (iSQRT) or svPN.

    As the matrix is symmetric, its upper triangle is the output: (B, heads * q * (q + 1) / 2).

    Args:
        dim: The width of the tokens.
        settings: All options of the head.
        changes: Single options, instead of `settings`.

    Examples:
        >>> import torch
        >>> pool = toughen.heads.CovariancePooling(16, q=4)
        >>> tuple(pool(torch.randn(2, 5, 16)).shape)
        (2, 10)
    """

    def __init__(self, dim: int, settings: HeadSettings | None = None, **changes: Any) -> None:
        super().__init__()
        chosen = settings or head_settings("isqrt", **changes)
        self.covariance = _covariance(dim, chosen, None)
        self.iterations = chosen.iterations
        self.isqrt = chosen.normalization == "isqrt"
        self.normalize = nn.Identity() if self.isqrt else _svpn(chosen, chosen.q)
        self.width = chosen.heads * chosen.q * (chosen.q + 1) // 2

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        matrix = self.covariance(tokens, mask)
        root = matrix_square_root(matrix, self.iterations) if self.isqrt else self.normalize(matrix)
        return upper_triangle(root).flatten(1)


class AveragePooling(nn.Module):
    """Pool by the mean of the tokens that the mask keeps.

    Args:
        dim: The width of the tokens.
        settings: All options of the head.

    Examples:
        >>> import torch
        >>> pool = toughen.heads.AveragePooling(16)
        >>> tuple(pool(torch.randn(2, 5, 16)).shape)
        (2, 16)
    """

    def __init__(self, dim: int, settings: HeadSettings | None = None) -> None:
        super().__init__()
        self.width = dim

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return masked_mean(tokens, mask)


POOLINGS = {"cross_covariance": MultiHeadPooling, "covariance": CovariancePooling, "average": AveragePooling}


def _covariance(dim: int, chosen: HeadSettings, k: int | None) -> CrossCovariance:
    return CrossCovariance(dim, chosen.q, k, **_pick(chosen, "heads", "norm", "activation", "bias", "center"))


def _svpn(chosen: HeadSettings, columns: int) -> nn.Module:
    if chosen.normalization == "none":
        return nn.Identity()
    names = ("alpha", "singular_values", "iterations", "start", "side", "eps", "exact")
    return SVPN(chosen.q if chosen.side == "rows" else columns, **_pick(chosen, *names))


def _pick(chosen: HeadSettings, *names: str) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in names}
