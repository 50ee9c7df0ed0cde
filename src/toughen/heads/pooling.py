"""Pool many tokens into one vector: MGCrP, covariance with a matrix root, average."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..internal.foreach import at_least_float32, no_autocast
from .covariance import CrossCovariance, token_weights, weighted_mean
from .fused import fused_pool
from .normalize import SVPN, matrix_square_root, upper_triangle
from .settings import HeadSettings, head_settings


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
        with no_autocast(tokens):
            full = at_least_float32(tokens)
            return weighted_mean(full, token_weights(full, mask)).squeeze(1)


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
