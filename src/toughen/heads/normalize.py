"""Even out the singular values of a batch of matrices.

svPN (SoT, Xie et al. 2021) by the power method, or exactly by a full decomposition with a gradient that is finite for
equal singular values; iSQRT (Li et al., CVPR 2018), the square root of a covariance by Newton-Schulz iteration.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..internal.foreach import at_least_float32, floor_of, no_autocast

Side = Literal["rows", "columns"]
Start = Literal["learned", "ones", "fixed", "random"]

# Singular values closer than this (relative) are differentiated as if equal: the error of both sides is about 1e-10.
EQUAL = 1e-5


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

    Args:
        x: The matrices.
        start: The start vector.
        alpha: The power of the singular values.
        singular_values: How many of them are raised.
        iterations: Rounds of the power method.
        side: "rows" or "columns".
        eps: Guard added to a power of the singular value.

    Returns:
        Matrices of the same shape.

    Raises:
        ValueError: An option out of range, or a start vector of another length.

    Examples:
        >>> import torch
        >>> tuple(toughen.heads.svpn(torch.randn(2, 4, 3)).shape)
        (2, 4, 3)
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
        return svpn(x.mT, start, alpha=alpha, singular_values=singular_values, iterations=iterations, eps=eps).mT
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


def svpn_exact(x: Tensor, *, alpha: float = 0.5, singular_values: int = 1, eps: float = 1e-5) -> Tensor:
    """Compute what `svpn` converges to with more iterations, for matrices (..., q, k) small enough to decompose.

    The gradient is that of a spectral function, U h(s) V^T, written with divided differences of h; the gradient of
    `torch.linalg.svd` divides by differences of squared singular values and is infinite where two of them meet.

    Args:
        x: The matrices.
        alpha: The power of the singular values.
        singular_values: How many of them are raised.
        eps: Guard added to a power of the singular value.

    Returns:
        Matrices of the same shape.

    Raises:
        ValueError: An option out of range.

    Examples:
        >>> import torch
        >>> tuple(toughen.heads.svpn_exact(torch.randn(2, 4, 3)).shape)
        (2, 4, 3)
    """
    if alpha < 0:
        raise ValueError(f"alpha={alpha}: a negative power blows up small singular values. Use 0 <= alpha (0.5).")
    if not 1 <= singular_values <= min(x.shape[-2:]):
        raise ValueError(f"singular_values={singular_values}, but the matrices are {x.shape[-2]}x{x.shape[-1]}.")
    with no_autocast(x):
        out = _ExactSVPN.apply(at_least_float32(x), alpha, singular_values, eps)
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
        u, s, vt = ctx.saved_tensors
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


def matrix_square_root(x: Tensor, iterations: int = 5) -> Tensor:
    """Compute the square root of symmetric positive semi-definite matrices (..., d, d), from matrix products alone.

    The trace scales the spectrum into the region of convergence and its root is multiplied back. A zero matrix gives
    zeros and a zero gradient.

    Args:
        x: The matrices.
        iterations: Steps of Newton-Schulz.

    Returns:
        Their square roots.

    Raises:
        ValueError: Less than one iteration.

    Examples:
        >>> import torch
        >>> toughen.heads.matrix_square_root(4.0 * torch.eye(2), iterations=20).round().tolist()
        [[2.0, 0.0], [0.0, 2.0]]
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


class SVPN(nn.Module):
    """Apply svPN with its own start vector.

    `size` is the length of that vector (q for `side="rows"`, k for `side="columns"`). `start`:

    * ``"learned"``: a parameter, standard normal at first (the papers);
    * ``"ones"``: all ones;
    * ``"fixed"``: one standard normal draw, saved with the model and never trained;
    * ``"random"``: a new draw in every training forward; evaluation uses the saved one, so it is deterministic.

    `exact=True` takes a full singular value decomposition instead of the power method (no start vector at all).

    Args:
        size: The length of the start vector.
        alpha: The power of the singular values.
        singular_values: How many of them are raised.
        iterations: Rounds of the power method.
        start: The start vector, as above.
        side: "rows" or "columns".
        eps: Guard added to a power of the singular value.
        exact: Decompose the matrix instead.

    Examples:
        >>> import torch
        >>> tuple(toughen.heads.SVPN(4)(torch.randn(2, 4, 3)).shape)
        (2, 4, 3)
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
            start = None if start is None else torch.randn_like(start)
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
