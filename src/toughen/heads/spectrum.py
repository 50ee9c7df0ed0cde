"""Measure the singular values of what a second-order head pools, before and after normalisation."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .head import SecondOrderHead
from .normalize import matrix_square_root
from .pooling import CovariancePooling, MultiHeadPooling


@torch.no_grad()
def spectrum(model: nn.Module, batch: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return singular values, largest first: mean, 10 % and 90 % quantiles over rows and heads; effective ranks.

    One forward pass of the model. None for a head that pools no covariance.
    """
    recorded: list[tuple[nn.Module, Tensor, Tensor | None]] = []

    def record(pool: nn.Module, given: tuple[Any, ...]) -> None:
        recorded.append((pool, given[0], given[1] if len(given) > 1 else None))

    # Adapters keep an idle copy of the head: only the one that runs is recorded.
    pools = [module.pool for module in model.modules() if isinstance(module, SecondOrderHead)]
    hooks = [pool.register_forward_pre_hook(record) for pool in pools if pool is not None]
    try:
        model(**batch)
    finally:
        for hook in hooks:
            hook.remove()
    if not recorded:
        return None
    pool, tokens, mask = recorded[0]
    if not isinstance(pool, (MultiHeadPooling, CovariancePooling)):
        return None
    matrix = pool.covariance(tokens, mask)
    if isinstance(pool, CovariancePooling) and pool.isqrt:
        name, after = "isqrt", matrix_square_root(matrix, pool.iterations)
    else:
        name = "none" if isinstance(pool.normalize, nn.Identity) else "svpn"
        after = pool.normalize(matrix)
    return {
        "rows": len(matrix),
        "shape": list(matrix.shape[1:]),
        "normalization": name,
        "before": _values(matrix),
        "after": _values(after),
    }


def _values(matrices: Tensor) -> dict[str, Any]:
    values = torch.linalg.svdvals(matrices.flatten(0, -3).cpu().double())
    weights = values / values.sum(1, keepdim=True).clamp_min(1e-30)
    # exp of the entropy: how many directions of equal size would carry as much (Roy and Vetterli 2007).
    effective = torch.special.entr(weights).sum(1).exp()
    low, high = torch.quantile(values, torch.tensor([0.1, 0.9], dtype=torch.float64), dim=0)
    names = {"mean": values.mean(0), "low": low, "high": high}
    short = {name: [float(f"{each:.4g}") for each in value.tolist()] for name, value in names.items()}
    return {**short, "effective_rank": round(float(effective.mean()), 3)}
