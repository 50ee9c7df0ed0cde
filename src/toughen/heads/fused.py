"""Compute the usual head (one head, one singular value, one iteration) as a single autograd step.

Eager training of a head is bound by launches, not by arithmetic. Written out, forward and backward of pooling are 38
kernels instead of 90 and pass by the recording of autograd; with Triton on a GPU they are three. Values are those of
the plain path.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from ..internal.foreach import TINY, at_least_float32, floor_of, no_autocast
from ..kernels import triton_works
from .covariance import centered, check_mask, product, token_weights
from .normalize import svpn

LARGEST = 64, 128  # the smaller and the larger of q and k for which a kernel's registers suffice


def fused_pool(x: Tensor, mask: Tensor | None, start: Tensor, q: int, relu: bool, alpha: float, eps: float) -> Tensor:
    """Compute `svpn` of the cross-covariance of the first `q` channels of x (B, N, C) with the others: (B, q, C - q).

    Tokens where `mask` (B, N) is 0 enter neither mean nor product.
    """
    check_mask(x, mask)
    mask = None if mask is None else mask.contiguous()
    start = start.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    return cast(Tensor, _FusedPool.apply(x.contiguous(), mask, start, (q, relu, float(alpha), float(eps))))


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
        ctx: Any, x: Tensor, mask: Tensor | None, start: Tensor, settings: tuple[int, bool, float, float]
    ) -> Tensor:
        ctx.settings, ctx.kernels = settings, _kernels_for(x, settings[0])
        if ctx.kernels is not None:
            out, *saved = ctx.kernels.forward(x, mask, start, *settings)
        else:
            with no_autocast(x):
                out, *saved = _forward(x, mask, start, *settings)
        ctx.save_for_backward(x, mask, start, *saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, mask, start, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: the backward itself will be differentiated
            out = reference_pool(x, mask, start, *ctx.settings)
            wanted = [value for value, needed in ((x, 0), (start, 2)) if ctx.needs_input_grad[needed]]
            found = list(torch.autograd.grad(out, wanted, grad, create_graph=True))
            d_x, d_start = (found.pop(0) if ctx.needs_input_grad[needed] else None for needed in (0, 2))
        elif ctx.kernels is not None:
            d_x, d_start = ctx.kernels.backward(grad.contiguous(), x, mask, start, *saved, *ctx.settings)
        else:
            with no_autocast(grad):
                d_x, d_start = _backward(grad, start, saved, *ctx.settings)
            d_x = d_x.to(x.dtype)
        return d_x, None, d_start, None


def _forward(
    x: Tensor, mask: Tensor | None, start: Tensor, q: int, relu: bool, alpha: float, eps: float
) -> tuple[Tensor, ...]:
    """(the result, what `_backward` needs)."""
    x = at_least_float32(x)
    weights = token_weights(x, mask)
    rectified = x.relu() if relu else x
    tokens = rectified - torch.bmm(weights[:, None], rectified)
    weighted = tokens * weights[..., None]
    matrix = torch.bmm(tokens[..., :q].mT, weighted[..., q:])
    # As in `normalize._svpn`: v = z / |z|, y = matrix v, s = |y|.
    z = torch.bmm(start.expand(len(x), 1, -1), matrix)
    length = torch.linalg.vector_norm(z, dim=2, keepdim=True).clamp_min_(TINY)
    v = z.div_(length)
    y = torch.bmm(matrix, v.mT)
    s = torch.linalg.vector_norm(y, dim=1, keepdim=True).clamp_min_(floor_of(x))
    shared = (rectified, weighted, matrix, length, v, y, s)
    if eps == 0:  # without the guard, svPN of one singular value is x / s^(1 - alpha)
        scale = s.pow(alpha - 1)
        return matrix * scale, *shared, scale
    power = s.pow(1 - alpha)
    inverse = power.reciprocal()
    scale = power.add_(eps).reciprocal_()
    lift = inverse - scale
    return torch.baddbmm(matrix * scale, y * lift, v), *shared, scale, inverse, lift


def _backward(
    grad: Tensor, start: Tensor, saved: list[Tensor], q: int, relu: bool, alpha: float, eps: float
) -> tuple[Tensor, Tensor]:
    rectified, weighted, matrix, length, v, y, s, scale, *guarded = saved
    d_scale = torch.bmm(grad.reshape(len(grad), 1, -1), matrix.view(len(grad), -1, 1))
    # Through s = |y|: ds/dy = y / s; none below the floor.
    if guarded:
        inverse, lift = guarded
        along_v, along_y = torch.bmm(grad, v.mT), torch.bmm(y.mT, grad)
        d_lift = torch.bmm(y.mT, along_v)
        d_power = torch.addcmul((d_lift - d_scale).mul_(scale.square()), d_lift, inverse.square(), value=-1)
        slope = d_power.div_(inverse * s.square()).mul_(s > floor_of(s))  # dpower/ds = (1 - alpha) s^-alpha
        d_y = (along_v * lift).addcmul_(y, slope, value=1 - alpha)
        d_v = torch.baddbmm(along_y * lift, d_y.mT, matrix)
    else:
        slope = d_scale.mul_(scale).div_(s.square()).mul_(s > floor_of(s))  # dscale/ds = (alpha - 1) scale / s
        d_y = (y * slope).mul_(alpha - 1)
        d_v = torch.bmm(d_y.mT, matrix)
    d_z = torch.baddbmm(d_v, torch.bmm(d_v, v.mT), v, alpha=-1).div_(length)
    d_matrix = (grad * scale).baddbmm_(d_y, v).baddbmm_(start[:, None].expand(len(grad), -1, 1), d_z)
    d_start = torch.bmm(matrix, d_z.mT).sum((0, 2))
    # The means carry no gradient: the weighted deviations they would receive sum to zero.
    d_x = torch.empty_like(rectified)
    torch.bmm(weighted[..., q:], d_matrix.mT, out=d_x[..., :q])
    torch.bmm(weighted[..., :q], d_matrix, out=d_x[..., q:])
    return (torch.ops.aten.threshold_backward(d_x, rectified, 0) if relu else d_x), d_start


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
