"""iSQRT: the square root of a covariance by Newton-Schulz iteration (Li et al., CVPR 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..internal.foreach import at_least_float32, floor_of, no_autocast


def matrix_square_root(x: Tensor, iterations: int = 5) -> Tensor:
    """Compute the square root of symmetric positive semi-definite matrices (..., d, d), from matrix products alone.

    The trace scales the spectrum into the region of convergence and its root is multiplied back. A zero matrix gives
    zeros and a zero gradient.
    """
    if iterations < 1:
        raise ValueError(f"iterations={iterations}: Newton-Schulz needs at least one.")
    with no_autocast(x):
        full = at_least_float32(x)
        trace = full.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None].clamp_min(floor_of(full))
        identity = torch.eye(full.shape[-1], dtype=full.dtype, device=full.device)
        root, inverse = full / trace, identity
        for _ in range(iterations):
            step = 1.5 * identity - 0.5 * (inverse @ root)
            root, inverse = root @ step, step @ inverse
        return (root * trace.sqrt()).to(x.dtype)


def upper_triangle(x: Tensor) -> Tensor:
    """Flatten the upper triangle of symmetric matrices (..., d, d), with the diagonal, into vectors."""
    rows, columns = torch.triu_indices(x.shape[-2], x.shape[-1], device=x.device).unbind(0)
    return x[..., rows, columns]
