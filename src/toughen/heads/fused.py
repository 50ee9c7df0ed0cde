"""Pool the usual head (one head, one singular value, one iteration) by Triton kernels, where they can run.

Eager training of a head is bound by launches, not by arithmetic: forward and backward of pooling are three launches in
place of ninety. Values are those of the plain path.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from ..internal.foreach import at_least_float32, no_autocast
from ..kernels import triton_works
from .covariance import centered, check_mask, product, token_weights
from .normalize import svpn

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
