"""svPN: singular-value power normalisation of a batch of matrices (SoT, Xie et al. 2021)."""

from __future__ import annotations

from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..internal.foreach import at_least_float32, floor_of, no_autocast
from .svd import svpn_exact

Side = Literal["rows", "columns"]
Start = Literal["learned", "ones", "fixed", "random"]


def svpn(
    x: Tensor,
    start: Tensor | None = None,
    *,
    alpha: float = 0.5,
    singular_values: int = 1,
    iterations: int = 1,
    side: Side = "rows",
    eps: float = 1e-5,
) -> Tensor:
    """Raise the leading singular values of `x` (..., q, k) to `alpha` and scale the rest alike.

    With (s_i, u_i, v_i) from `iterations` rounds of the power method, one triple after the other by deflation::

        sum_i s_i^alpha u_i v_i^T  +  (x - sum_i s_i u_i v_i^T) / (s_last^(1-alpha) + eps)

    `start` is the vector the power method begins with: of length q for `side="rows"`, of length k for
    `side="columns"`; None means all ones. Values and gradients are finite for zero and rank-deficient matrices.
    """
    check_power_method(alpha, singular_values, iterations, side)
    rows, columns = x.shape[-2:]
    if singular_values > min(rows, columns):
        raise ValueError(f"singular_values={singular_values}, but a {rows}x{columns} matrix has {min(rows, columns)}.")
    length = rows if side == "rows" else columns
    if start is not None and start.shape != (length,):
        raise ValueError(
            f"start has shape {tuple(start.shape)}, but side={side!r} of a {rows}x{columns} matrix needs ({length},)."
        )
    if side == "columns":
        flipped = svpn(
            x.mT, start, alpha=alpha, singular_values=singular_values, iterations=iterations, side="rows", eps=eps
        )
        return flipped.mT
    with no_autocast(x):
        full = at_least_float32(x)
        first = full.new_ones(rows) if start is None else start.to(full.dtype)
        out = _svpn(full.reshape(-1, rows, columns), first, alpha, singular_values, iterations, eps)
    return out.reshape(x.shape).to(x.dtype)


def _svpn(x: Tensor, start: Tensor, alpha: float, singular_values: int, iterations: int, eps: float) -> Tensor:
    rest = x
    images: list[Tensor] = []
    directions: list[Tensor] = []
    powers: list[Tensor] = []
    for index in range(singular_values):
        image, direction = _leading(rest, start, iterations)  # image = s u (B, q, 1), direction = v^T (B, 1, k)
        size = torch.linalg.vector_norm(image, dim=1, keepdim=True)
        # Below the floor the power has no finite slope; clamping passes no gradient there, which is the limit of
        # the whole term.
        powers.append(size.clamp_min(floor_of(x)).pow(1 - alpha))
        images.append(image)
        directions.append(direction)
        if index + 1 < singular_values:
            rest = torch.baddbmm(rest, image, direction, alpha=-1)
    # The published sum, collected by powers of s: every term is one rank-one correction of a scaled x.
    scale = 1 / (powers[-1] + eps)
    weighted = [image * (1 / power - scale) for image, power in zip(images, powers, strict=True)]
    return torch.baddbmm(x * scale, _join(weighted, -1), _join(directions, 1))


def _leading(x: Tensor, start: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Find the leading singular direction by power iteration: (x v, v^T), so that s = |x v| and u = x v / s."""
    direction = F.normalize(torch.bmm(start.expand(x.shape[0], 1, -1), x), dim=2)
    image = torch.bmm(x, direction.mT)
    for _ in range(iterations - 1):
        direction = F.normalize(torch.bmm(F.normalize(image, dim=1).mT, x), dim=2)
        image = torch.bmm(x, direction.mT)
    return image, direction


def _join(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def check_power_method(alpha: float, singular_values: int, iterations: int, side: str) -> None:
    """Refuse settings that the power method cannot handle, before any data is seen."""
    if alpha < 0:
        raise ValueError(f"alpha={alpha}: a negative power blows up small singular values. Use 0 <= alpha (0.5).")
    if singular_values < 1 or iterations < 1:
        raise ValueError(f"singular_values={singular_values}, iterations={iterations}: both must be at least 1.")
    if side not in ("rows", "columns"):
        raise ValueError(f"side={side!r} is unknown. Use 'rows' or 'columns'.")
    if singular_values > 1 and iterations == 1:
        # After one round v is parallel to x^T start, so deflation leaves (x')^T start = 0: pure rounding.
        raise ValueError(
            f"singular_values={singular_values} with iterations=1: the first deflation removes the start vector, and "
            "the second direction would be rounding noise. Use iterations >= 2, or exact=True."
        )


class SVPN(nn.Module):
    """Apply svPN with its own start vector.

    `size` is the length of that vector (q for `side="rows"`, k for `side="columns"`). `start`:

    * ``"learned"``: a parameter, standard normal at first (the papers);
    * ``"ones"``: all ones;
    * ``"fixed"``: one standard normal draw, saved with the model and never trained;
    * ``"random"``: a new draw in every training forward; evaluation uses the saved one, so it is deterministic.

    `exact=True` takes a full singular value decomposition instead of the power method (no start vector at all).
    """

    start: Tensor | None

    def __init__(
        self,
        size: int,
        *,
        alpha: float = 0.5,
        singular_values: int = 1,
        iterations: int = 1,
        start: Start = "learned",
        side: Side = "rows",
        eps: float = 1e-5,
        exact: bool = False,
    ) -> None:
        super().__init__()
        check_power_method(alpha, singular_values, 2 if exact else iterations, side)
        self.alpha, self.singular_values, self.iterations = alpha, singular_values, iterations
        self.side: Side = side
        self.eps, self.exact, self.kind = eps, exact, start
        if exact or start == "ones":
            self.start = None
        elif start == "learned":
            self.start = nn.Parameter(torch.randn(size))
        elif start in ("fixed", "random"):
            self.register_buffer("start", torch.randn(size))
        else:
            raise ValueError(f"start={start!r} is unknown. Use 'learned', 'ones', 'fixed' or 'random'.")

    def forward(self, x: Tensor) -> Tensor:
        if self.exact:
            return svpn_exact(x, alpha=self.alpha, singular_values=self.singular_values, eps=self.eps)
        start = self.start
        if self.kind == "random" and self.training:
            start = torch.randn_like(cast(Tensor, start))
        return svpn(
            x,
            start,
            alpha=self.alpha,
            singular_values=self.singular_values,
            iterations=self.iterations,
            side=self.side,
            eps=self.eps,
        )

    def extra_repr(self) -> str:
        how = "exact" if self.exact else f"iterations={self.iterations}, start={self.kind!r}, side={self.side!r}"
        return f"alpha={self.alpha}, singular_values={self.singular_values}, {how}"
