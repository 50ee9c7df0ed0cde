"""An adversary's scores to an additive mask, and the mask's gradient to that of the scores, in one pass over memory.

The mathematics and its reasons are in `search.mask_function` and `search.counter_rng`. One program has whole rows of
one mask. Scores, masks and gradients are (texts * masks, L, L), contiguous; which pairs the model itself attends to may
be broadcast.
"""

# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl

from .counter_rng import mixed, permute


@triton.jit
def _rows(masks, length, BM: tl.constexpr, BN: tl.constexpr):
    """Return this program's mask, its text, its rows and all columns."""
    pid = tl.program_id(0)
    blocks = tl.cdiv(length, BM)
    mask = (pid // blocks).to(tl.int64)
    return mask, mask // masks, (pid % blocks) * BM + tl.arange(0, BM), tl.arange(0, BN)


@triton.jit
def _scores(SCORES, KEY, PLACES, mask, text, rows, columns, length, scale, offset, DRAW: tl.constexpr):
    inside = (rows < length)[:, None] & (columns < length)[None, :]
    place = (mask * length + rows)[:, None] * length + columns
    scores = tl.load(SCORES + place, mask=inside, other=0).to(tl.float32) * scale + offset
    if DRAW:
        key, other = tl.load(KEY), tl.load(KEY + 1)
        row_places = tl.load(PLACES + text * length + rows, mask=rows < length, other=0)
        column_places = tl.load(PLACES + text * length + columns, mask=columns < length, other=0)
        factor = mixed(row_places + mixed(mask.to(tl.int32) + key).to(tl.int32, bitcast=True))
        start = mixed(factor + other.to(tl.uint32, bitcast=True))
        column = mixed(column_places - other) | 1
        words = permute(factor[:, None] * column[None, :] + start[:, None]).to(tl.int32, bitcast=True)
        uniform = words.to(tl.float32) * (1.0 / 4294967296.0) + 0.5
        uniform = tl.minimum(tl.maximum(uniform, 1.0 / 16777216.0), 1.0 - 1.0 / 16777216.0)
        scores += tl.log(uniform / (1.0 - uniform))
    return scores, place, inside


@triton.jit
def _allowed(PAIRS, text, rows, columns, pb, pq, pk, inside, PAIRED: tl.constexpr):
    if PAIRED:
        pairs = PAIRS + text * pb + rows[:, None] * pq + columns[None, :] * pk
        allowed = inside & (tl.load(pairs, mask=inside, other=0) != 0)
    else:
        allowed = inside
    return allowed


@triton.jit
def _real(REAL, text, rows, length, PADDED: tl.constexpr):
    """Tell which rows are no padding's."""
    return tl.load(REAL + text * length + rows, mask=rows < length, other=0) != 0 if PADDED else rows < length


@triton.jit
def hide(
    SCORES, KEY, PLACES, REAL, PAIRS, BIAS, SEEN, ALL, masks, length, pb, pq, pk, scale, offset, low,
    DRAW: tl.constexpr, PADDED: tl.constexpr, PAIRED: tl.constexpr, SPARE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Compute the mask, and of each of its rows how many pairs are visible and how many could be."""
    mask, text, rows, columns = _rows(masks, length, BM, BN)
    scores, place, inside = _scores(SCORES, KEY, PLACES, mask, text, rows, columns, length, scale, offset, DRAW)
    real = _real(REAL, text, rows, length, PADDED)
    allowed = _allowed(PAIRS, text, rows, columns, pb, pq, pk, inside, PAIRED)
    visible = ((scores > 0) | (real[:, None] == 0)) & allowed  # padding's own rows are left as they are
    if SPARE:
        lost = tl.sum(visible.to(tl.int32), 1) == 0
        visible = visible | (allowed & lost[:, None] & (rows[:, None] == columns[None, :]))
    tl.store(BIAS + place, tl.where(visible, 0.0, low).to(BIAS.dtype.element_ty), mask=inside)
    row = mask * length + rows
    tl.store(SEEN + row, tl.sum((visible & real[:, None]).to(tl.int32), 1), mask=rows < length)
    tl.store(ALL + row, tl.sum((allowed & real[:, None]).to(tl.int32), 1), mask=rows < length)


@triton.jit
def score_gradient(
    SCORES, KEY, PLACES, REAL, PAIRS, GRAD, PRICE, OUT, masks, length, pb, pq, pk, scale, offset, slope,
    sharpness, factor,
    DRAW: tl.constexpr, PADDED: tl.constexpr, PAIRED: tl.constexpr, DIALS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Compute the derivative of the sigmoid that stands for the step function, times what mask and price ask for.

    Settings that change over a training (`DIALS`) are read from the device.
    """
    mask, text, rows, columns = _rows(masks, length, BM, BN)
    scores, place, inside = _scores(SCORES, KEY, PLACES, mask, text, rows, columns, length, scale, offset, DRAW)
    if DIALS:
        sharpness, factor = tl.load(sharpness), tl.load(factor)
    soft = tl.sigmoid(scores * sharpness)
    grad = tl.load(GRAD + place, mask=inside, other=0).to(tl.float32) * slope + tl.load(PRICE + text)
    grad *= soft * (1.0 - soft) * factor
    counts = _allowed(PAIRS, text, rows, columns, pb, pq, pk, inside, PAIRED)
    counts = counts & _real(REAL, text, rows, length, PADDED)[:, None]
    tl.store(OUT + place, tl.where(counts, grad, 0.0).to(OUT.dtype.element_ty), mask=inside)
