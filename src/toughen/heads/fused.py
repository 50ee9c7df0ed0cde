"""The usual head (one head, one singular value, one iteration) as a single autograd step.

Eager training of a head is bound by launches, not by arithmetic. Written out, forward and backward of pooling are 45
kernels instead of 90, and none of them passes through the recording of autograd. Values are those of the plain path.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from .covariance import centered, product
from .normalize import svpn
from .precision import floor_of, no_autocast

TINY = 1e-12  # where F.normalize stops dividing


def pooled_at_once(x: Tensor, weights: Tensor, start: Tensor, q: int, relu: bool, alpha: float, eps: float) -> Tensor:
    """`svpn` of the cross-covariance of the first `q` channels of x (B, N, C) with the others: (B, q, C - q)."""
    return cast(Tensor, _Pooled.apply(x, weights, start.to(x.dtype), q, relu, alpha, eps))


def pooled_plainly(x: Tensor, weights: Tensor, start: Tensor, q: int, relu: bool, alpha: float, eps: float) -> Tensor:
    """The same by ordinary operations, for gradients of gradients."""
    x = centered(x.relu() if relu else x, weights, "channel")
    return svpn(product(x[..., :q], x[..., q:], weights), start, alpha=alpha, eps=eps)


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, start: Tensor, q: int, relu: bool, alpha: float, eps: float
    ) -> Tensor:
        rectified = x.relu() if relu else x
        tokens = rectified - torch.bmm(weights[:, None], rectified)
        left, right = tokens[..., :q], tokens[..., q:] * weights[..., None]
        matrix = torch.bmm(left.mT, right)
        # As in `normalize._svpn`: v = z / |z|, y = matrix v, s = |y|.
        z = torch.bmm(start.expand(matrix.shape[0], 1, -1), matrix)
        length = torch.linalg.vector_norm(z, dim=2, keepdim=True).clamp_min_(TINY)
        v = z.div_(length)
        y = torch.bmm(matrix, v.mT)
        s = torch.linalg.vector_norm(y, dim=1, keepdim=True).clamp_min_(floor_of(x))
        ctx.settings = q, relu, alpha, eps
        shared = (x, weights, start, rectified, tokens, right, matrix, length, v, y, s)
        if eps == 0:  # without the guard, svPN of one singular value is x / s^(1 - alpha)
            scale = s.pow(alpha - 1)
            ctx.save_for_backward(*shared, scale)
            return matrix * scale
        power = s.pow(1 - alpha)
        inverse = power.reciprocal()
        scale = power.add_(eps).reciprocal_()
        lift = inverse - scale
        ctx.save_for_backward(*shared, scale, inverse, lift)
        return torch.baddbmm(matrix * scale, y * lift, v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        saved = cast("tuple[Tensor, ...]", ctx.saved_tensors)
        q, relu, alpha, eps = ctx.settings
        if torch.is_grad_enabled():  # create_graph: the backward itself will be differentiated
            x, weights, start = saved[:3]
            out = pooled_plainly(x, weights, start, q, relu, alpha, eps)
            wanted = [value for value, needed in ((x, 0), (start, 2)) if ctx.needs_input_grad[needed]]
            found = list(torch.autograd.grad(out, wanted, grad, create_graph=True))
            d_x, d_start = (found.pop(0) if ctx.needs_input_grad[needed] else None for needed in (0, 2))
            return d_x, None, d_start, None, None, None, None
        with no_autocast(grad):
            d_x, d_start = _first_order(grad, saved, q, relu, alpha, ctx.needs_input_grad[2])
        return d_x, None, d_start, None, None, None, None


def _first_order(
    grad: Tensor, saved: tuple[Tensor, ...], q: int, relu: bool, alpha: float, learned: bool
) -> tuple[Tensor, Tensor | None]:
    _, weights, start, rectified, tokens, right, matrix, length, v, y, s, scale, *guarded = saved
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
    d_start = torch.bmm(matrix, d_z.mT).sum((0, 2)) if learned else None
    # The means carry no gradient: the weighted deviations they would receive sum to zero.
    d_left = torch.bmm(right, d_matrix.mT)
    d_right = torch.bmm(tokens[..., :q], d_matrix).mul_(weights[..., None])
    d_x = torch.cat([d_left, d_right], 2)
    return (torch.ops.aten.threshold_backward(d_x, rectified, 0) if relu else d_x), d_start
