"""Compute svPN by a full singular value decomposition, with a finite gradient for equal singular values."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..internal.foreach import at_least_float32, floor_of, no_autocast

# Singular values closer than this (relative) are differentiated as if equal: the error of both sides is about 1e-10.
EQUAL = 1e-5


def svpn_exact(x: Tensor, *, alpha: float = 0.5, singular_values: int = 1, eps: float = 1e-5) -> Tensor:
    """Compute what `svpn` converges to with more iterations, for matrices (..., q, k) small enough to decompose.

    The gradient is that of a spectral function, U h(s) V^T, written with divided differences of h; the gradient of
    `torch.linalg.svd` divides by differences of squared singular values and is infinite where two of them meet.
    """
    if alpha < 0:
        raise ValueError(f"alpha={alpha}: a negative power blows up small singular values. Use 0 <= alpha (0.5).")
    if not 1 <= singular_values <= min(x.shape[-2:]):
        raise ValueError(f"singular_values={singular_values}, but the matrices are {x.shape[-2]}x{x.shape[-1]}.")
    with no_autocast(x):
        out = cast(Tensor, _ExactSVPN.apply(at_least_float32(x), alpha, singular_values, eps))
    return out.to(x.dtype)


class _ExactSVPN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float, singular_values: int, eps: float) -> Tensor:
        u, s, vt = torch.linalg.svd(x, full_matrices=False)
        ctx.save_for_backward(u, s, vt)
        ctx.settings = alpha, singular_values, eps
        gain = _gains(s, alpha, singular_values, eps)[0]
        return (u * (gain * s)[..., None, :]) @ vt

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor, None, None, None]:
        (grad,) = grads
        u, s, vt = cast("tuple[Tensor, Tensor, Tensor]", ctx.saved_tensors)
        alpha, singular_values, eps = ctx.settings
        gain, kappa, powered = _gains(s, alpha, singular_values, eps)
        inner = u.mT @ grad @ vt.mT
        symmetric, skew = (inner + inner.mT) / 2, (inner - inner.mT) / 2

        h = gain * s
        total, floor = s[..., :, None] + s[..., None, :], _floor(s)[..., None]
        together = torch.where(
            total > floor, (h[..., :, None] + h[..., None, :]) / total.clamp_min(floor_of(s)), kappa[..., None]
        )
        core = _differences(s, h, alpha, kappa, powered) * symmetric + together * skew

        # The diagonal: each h by its own s, and the residual's scale by the last powered s.
        diagonal = inner.diagonal(dim1=-2, dim2=-1)
        safe = torch.where(powered, s, torch.ones_like(s))
        own = torch.where(powered, alpha * safe.pow(alpha - 1), kappa)
        last = singular_values - 1
        slope = -kappa.square() * (1 - alpha) * safe[..., last : last + 1].pow(-alpha)
        slope = torch.where(powered[..., last : last + 1], slope, torch.zeros_like(slope))
        through_last = (diagonal * s * slope)[..., last + 1 :].sum(-1, keepdim=True)
        at_last = torch.zeros_like(s)
        at_last[..., last : last + 1] = through_last
        core.diagonal(dim1=-2, dim2=-1).copy_(own * diagonal + at_last)

        # What of the gradient lies outside the row and column spaces sees the plain gain h / s.
        left = (grad - u @ (u.mT @ grad)) @ vt.mT * gain[..., None, :]
        right = gain[..., :, None] * (u.mT @ (grad - (grad @ vt.mT) @ vt))
        return u @ (core @ vt + right) + left @ vt, None, None, None


def _floor(s: Tensor) -> Tensor:
    """Return the value (..., 1) below which a singular value is rounding error."""
    return (s[..., :1] * torch.finfo(s.dtype).eps * 8).clamp_min(floor_of(s))


def _gains(s: Tensor, alpha: float, singular_values: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(h / s for every singular value, the residual's scale, which values are raised to the power)."""
    leading = torch.arange(s.shape[-1], device=s.device) < singular_values
    powered = leading & (s > _floor(s))
    last = s[..., singular_values - 1 : singular_values]
    kappa = 1 / (last.clamp_min(floor_of(s)).pow(1 - alpha) + eps)
    safe = torch.where(powered, s, torch.ones_like(s))
    return torch.where(powered, safe.pow(alpha - 1), kappa), kappa, powered


def _differences(s: Tensor, h: Tensor, alpha: float, kappa: Tensor, powered: Tensor) -> Tensor:
    """(h_i - h_j) / (s_i - s_j) for all pairs, by its limit where the two are (nearly) equal."""
    rows, columns = s[..., :, None], s[..., None, :]
    gap, middle = rows - columns, (rows + columns) / 2
    near = gap.abs() <= EQUAL * middle
    secant = (h[..., :, None] - h[..., None, :]) / torch.where(near, torch.ones_like(gap), gap)
    both = powered[..., :, None] & powered[..., None, :]
    tangent = alpha * torch.where(both, middle, torch.ones_like(middle)).pow(alpha - 1)
    neither = ~powered[..., :, None] & ~powered[..., None, :]
    # Across the edge of the powered set h jumps by eps s^(2 alpha - 1) when two values swap; there is no derivative
    # at a tie, and the scale of the residual is the average of what lies on both sides.
    limit = torch.where(both, tangent, kappa[..., None])
    return torch.where(near | neither, limit, secant)
