# Triton's language is no Python that a type checker could follow, and Triton comes with CUDA builds of torch alone.
# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false
"""The pooling as two Triton kernels, one forward and one backward, in place of some forty launches.

Every program holds the whole covariance of one example in registers. Statistics are float32 whatever the tokens are.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..internal.foreach import TINY, floor_of

TOKENS = 16  # at once: more spill the registers


def forward(
    x: Tensor, mask: Tensor | None, start: Tensor, q: int, relu: bool, alpha: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(pooled, covariance, means) of projections x (B, N, q + k)."""
    rows, count, width = x.shape
    matrix = x.new_empty(rows, q, width - q, dtype=torch.float32)
    out, mean = torch.empty_like(matrix), x.new_empty(rows, width, dtype=torch.float32)
    tensors = (x, x if mask is None else mask, start, out, matrix, mean)
    numbers = (count, alpha, eps, floor_of(matrix), TINY)
    _launch(_forward, (rows, 1, 1), tensors, numbers, (q, width - q, relu, mask is not None))
    return out, matrix, mean


def backward(
    grad: Tensor,
    x: Tensor,
    mask: Tensor | None,
    start: Tensor,
    matrix: Tensor,
    mean: Tensor,
    q: int,
    relu: bool,
    alpha: float,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the projections and of the start vector."""
    rows, count, width = x.shape
    d_x, d_start = torch.empty_like(x), x.new_empty(rows, q, dtype=torch.float32)
    tensors = (grad, x, x if mask is None else mask, start, matrix, mean, d_x, d_start)
    numbers = (count, alpha, eps, floor_of(matrix), TINY)
    grid = (rows, max(1, -(-count // TOKENS)), 1)  # also without tokens d_start is to be written
    _launch(_backward, grid, tensors, numbers, (q, width - q, relu, mask is not None))
    return d_x, d_start.sum(0)


_built: dict[tuple[Any, ...], Any] = {}


def _launch(
    kernel: Any,
    grid: tuple[int, int, int],
    tensors: tuple[Tensor, ...],
    numbers: tuple[float, ...],
    settings: tuple[int, int, bool, bool],
) -> None:
    """Run a kernel; from the second time on skip Triton's own look-up, which takes as long as ten launches."""
    key = (id(kernel), tensors[0].device, settings, *[tensor.dtype for tensor in tensors])
    aligned = not any(tensor.data_ptr() % 16 for tensor in tensors)  # what Triton would look at, beside the types
    built = _built.get(key) if aligned else None
    # A matrix product has at least 16 rows and columns.
    q, k = (max(16, 1 << (size - 1).bit_length()) for size in settings[:2])
    arguments = (*tensors, *numbers, *settings, q, k, TOKENS)
    if built is not None:
        built[grid](*arguments)
    else:
        built = kernel[grid](*arguments, num_warps=16)
        if aligned:
            _built[key] = built


@triton.jit
def _load(at, row, count, positions, channels, first, size, width, relu: tl.constexpr):
    """Load channels `first` to `first + size` of some tokens, zero outside of either."""
    inside = (positions < count)[:, None] & (channels < size)[None, :]
    x = tl.load(at + (row * count + positions[:, None]) * width + first + channels[None, :], mask=inside, other=0.0)
    x = x.to(tl.float32)
    return tl.where(x < 0, 0.0, x) if relu else x  # not a maximum: what is not a number must stay so


@triton.jit
def _load_weights(mask, row, count, positions, masked: tl.constexpr):
    """Load the weight of each of some tokens, not yet divided by their number."""
    inside = positions < count
    return (
        tl.load(mask + row * count + positions, mask=inside, other=0).to(tl.float32)
        if masked
        else tl.where(inside, 1.0, 0.0)
    )


@triton.jit
def _powers(matrix, start, alpha, eps, floor, tiny):
    """Compute, as in `normalize._svpn`: |z|, v = z / |z|, y = matrix v, s = |y|, and the powers of s."""
    z = tl.sum(start[:, None] * matrix, 0)
    length = tl.maximum(tl.sqrt(tl.sum(z * z)), tiny)
    v = z / length
    y = tl.sum(matrix * v[None, :], 1)
    s = tl.maximum(tl.sqrt(tl.sum(y * y)), floor)
    power = tl.exp((1 - alpha) * tl.log(s))
    return length, v, y, s, 1 / power, 1 / (power + eps)


@triton.jit(do_not_specialize=["count", "alpha", "eps", "floor", "tiny"])
def _forward(
    x_at, mask_at, start_at, out_at, matrix_at, mean_at, count, alpha, eps, floor, tiny,
    q: tl.constexpr, k: tl.constexpr, relu: tl.constexpr, masked: tl.constexpr,
    Q: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    rows, columns, tokens = tl.arange(0, Q), tl.arange(0, K), tl.arange(0, N)
    left_sum = tl.zeros([Q], tl.float32)
    right_sum = tl.zeros([K], tl.float32)
    number = tl.zeros([N], tl.float32)
    first = 0
    while first < count:
        kept = _load_weights(mask_at, row, count, first + tokens, masked)
        number += kept
        left = _load(x_at, row, count, first + tokens, rows, 0, q, q + k, relu)
        right = _load(x_at, row, count, first + tokens, columns, q, k, q + k, relu)
        left_sum += tl.sum(left * kept[:, None], 0)
        right_sum += tl.sum(right * kept[:, None], 0)
        first += N
    total = tl.maximum(tl.sum(number), 1.0)
    left_mean, right_mean = left_sum / total, right_sum / total
    tl.store(mean_at + row * (q + k) + rows, left_mean, mask=rows < q)
    tl.store(mean_at + row * (q + k) + q + columns, right_mean, mask=columns < k)

    matrix = tl.zeros([Q, K], tl.float32)
    first = 0
    while first < count:
        weight = _load_weights(mask_at, row, count, first + tokens, masked) / total
        left = _load(x_at, row, count, first + tokens, rows, 0, q, q + k, relu) - left_mean[None, :]
        right = _load(x_at, row, count, first + tokens, columns, q, k, q + k, relu) - right_mean[None, :]
        matrix += tl.dot(tl.trans(left), right * weight[:, None], input_precision="ieee")
        first += N

    start = tl.load(start_at + rows, mask=rows < q, other=0.0).to(tl.float32)
    _length, v, y, _s, inverse, scale = _powers(matrix, start, alpha, eps, floor, tiny)
    out = matrix * scale + (y * (inverse - scale))[:, None] * v[None, :]
    positions = row * q * k + rows[:, None] * k + columns[None, :]
    inside = (rows < q)[:, None] & (columns < k)[None, :]
    tl.store(matrix_at + positions, matrix, mask=inside)
    tl.store(out_at + positions, out, mask=inside)


@triton.jit(do_not_specialize=["count", "alpha", "eps", "floor", "tiny"])
def _backward(
    grad_at, x_at, mask_at, start_at, matrix_at, mean_at, d_x_at, d_start_at, count, alpha, eps, floor, tiny,
    q: tl.constexpr, k: tl.constexpr, relu: tl.constexpr, masked: tl.constexpr,
    Q: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    rows, columns, tokens = tl.arange(0, Q), tl.arange(0, K), tl.arange(0, N)
    positions = row * q * k + rows[:, None] * k + columns[None, :]
    inside = (rows < q)[:, None] & (columns < k)[None, :]
    grad = tl.load(grad_at + positions, mask=inside, other=0.0)
    matrix = tl.load(matrix_at + positions, mask=inside, other=0.0)
    start = tl.load(start_at + rows, mask=rows < q, other=0.0).to(tl.float32)
    length, v, y, s, inverse, scale = _powers(matrix, start, alpha, eps, floor, tiny)

    lift = inverse - scale
    along_v = tl.sum(grad * v[None, :], 1)
    along_y = tl.sum(grad * y[:, None], 0)
    d_lift = tl.sum(y * along_v)
    d_power = d_lift * (scale * scale - inverse * inverse) - tl.sum(grad * matrix) * scale * scale
    # dpower/ds = (1 - alpha) s^-alpha and ds/dy = y / s; none below the floor.
    slope = tl.where(s > floor, (1 - alpha) * d_power / (inverse * s * s), 0.0)
    d_y = along_v * lift + y * slope
    d_v = along_y * lift + tl.sum(matrix * d_y[:, None], 0)
    d_z = (d_v - v * tl.sum(d_v * v)) / length
    d_matrix = grad * scale + d_y[:, None] * v[None, :] + start[:, None] * d_z[None, :]
    if tl.program_id(1) == 0:
        tl.store(d_start_at + row * q + rows, tl.sum(matrix * d_z[None, :], 1), mask=rows < q)

    number = tl.zeros([N], tl.float32)
    first = 0
    while first < count:
        number += _load_weights(mask_at, row, count, first + tokens, masked)
        first += N
    some = tl.program_id(1) * N + tokens
    weight = (_load_weights(mask_at, row, count, some, masked) / tl.maximum(tl.sum(number), 1.0))[:, None]
    left_mean = tl.load(mean_at + row * (q + k) + rows, mask=rows < q, other=0.0)
    right_mean = tl.load(mean_at + row * (q + k) + q + columns, mask=columns < k, other=0.0)
    left = _load(x_at, row, count, some, rows, 0, q, q + k, relu)
    right = _load(x_at, row, count, some, columns, q, k, q + k, relu)
    # The means carry no gradient: the weighted deviations they would receive sum to zero.
    d_left = tl.dot((right - right_mean[None, :]) * weight, tl.trans(d_matrix), input_precision="ieee")
    d_right = tl.dot((left - left_mean[None, :]) * weight, d_matrix, input_precision="ieee")
    if relu:
        d_left, d_right = tl.where(left <= 0, 0.0, d_left), tl.where(right <= 0, 0.0, d_right)
    at = d_x_at + (row * count + some[:, None]) * (q + k)
    tl.store(at + rows[None, :], d_left, mask=(some < count)[:, None] & (rows < q)[None, :])
    tl.store(at + q + columns[None, :], d_right, mask=(some < count)[:, None] & (columns < k)[None, :])
