"""FlashAttention (Dao 2023) with a mask for all heads, and that mask's gradient summed over them, or one for each.

Tiles of the logits are made again in the backward pass: by the kernel for the queries' gradient, by that for keys and
values, and by that for the mask, which goes over the heads in a loop, so that nothing of size heads x L x L exists.
Queries, keys and values are (batch, heads, L, D) of any strides but 1 in the last place; what is written is contiguous,
(batch, L, heads, D). Heads are the fastest to change between programs, as those that run together share a mask's tile.
"""

# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl

from .counter_rng import dropout_keep, row_words

LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-16384.0)  # of a hidden pair: no weight beside a visible one, and a row of them alone is level
NO_MASK, VISIBLE, ADDITIVE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def _here(heads, length, BLOCK: tl.constexpr):
    """Return this program's text, its head, and the first of its positions."""
    pid = tl.program_id(0)
    blocks = tl.cdiv(length, BLOCK)
    rest = pid // heads
    return (rest // blocks).to(tl.int64), pid % heads, (rest % blocks) * BLOCK


@triton.jit
def _read(pointers, inside, EVEN: tl.constexpr):
    return tl.load(pointers) if EVEN else tl.load(pointers, mask=inside, other=0)


@triton.jit
def _logits(products, mask, keys, length, scale, KIND: tl.constexpr, EVEN: tl.constexpr):
    logits = products * scale
    if KIND == ADDITIVE:
        logits = tl.maximum(logits + mask.to(tl.float32), LOWEST)
    elif KIND == VISIBLE:
        logits = tl.where(mask != 0, logits, LOWEST)
    if not EVEN:
        logits = tl.where(keys < length, logits, float("-inf"))
    return logits


@triton.jit
def _mask_tile(M, rows, columns, mq, mk, inside, KIND: tl.constexpr, EVEN: tl.constexpr):
    return 0 if KIND == NO_MASK else _read(M + rows * mq + columns * mk, inside, EVEN)


@triton.jit
def forward(
    Q, K, V, M, OUT, LSE, WORDS, SEED, qb, qh, ql, kb, kh, kl, vb, vh, vl, mb, mh, mq, mk,
    heads, length, scale, threshold, grow,
    KIND: tl.constexpr, DROP: tl.constexpr, EVEN: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Compute attention of a block of queries, and the binary logarithm of what their weights were divided by."""
    text, head, start = _here(heads, length, BM)
    m, n, d = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = _read(Q + text * qb + head * qh + m[:, None] * ql + d, (m < length)[:, None], EVEN)
    K += text * kb + head * kh
    V += text * vb + head * vh
    M += text * mb + head * mh
    row = (text * heads + head) * length + m
    words = tl.zeros([BM], tl.int32)
    if DROP:
        words = row_words(SEED, (text * heads + head).to(tl.int32), m).to(tl.int32, bitcast=True)
        tl.store(WORDS + row, words, mask=m < length)
    highest = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    out = tl.zeros([BM, D], tl.float32)
    for first in range(0, length, BN):
        keys = first + n
        inside = (m < length)[:, None] & (keys < length)[None, :]
        k = _read(K + keys[None, :] * kl + d[:, None], (keys < length)[None, :], EVEN)
        mask = _mask_tile(M, m[:, None], keys[None, :], mq, mk, inside, KIND, EVEN)
        logits = _logits(tl.dot(q, k), mask, keys[None, :], length, scale, KIND, EVEN)
        higher = tl.maximum(highest, tl.max(logits, 1))
        weights = tl.exp2(logits * LOG2E - (higher * LOG2E)[:, None])
        shrink = tl.exp2((highest - higher) * LOG2E)
        total = total * shrink + tl.sum(weights, 1)
        if DROP:
            key_words = _row_of(SEED + 2, keys, length, 0, EVEN)
            weights *= tl.where(dropout_keep(words[:, None], key_words[None, :], threshold), grow, 0.0)
        v = _read(V + keys[:, None] * vl + d, (keys < length)[:, None], EVEN)
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None])
        highest = higher
    tl.store(LSE + row, highest * LOG2E + tl.log2(total), mask=m < length)
    out *= (1.0 / total)[:, None]
    place = ((text * length + m) * heads + head)[:, None] * D + d
    tl.store(OUT + place, out.to(OUT.dtype.element_ty), mask=(m < length)[:, None])


@triton.jit
def products(OUT, GRAD, DELTA, rows, heads, length, D: tl.constexpr, ROWS: tl.constexpr):
    """Multiply output and its gradient of each query and head, which the softmax's derivative takes off."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    place, inside = row[:, None] * D + tl.arange(0, D), (row < rows)[:, None]
    out, grad = tl.load(OUT + place, mask=inside, other=0), tl.load(GRAD + place, mask=inside, other=0)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    head, position, text = row % heads, row // heads % length, row // heads // length
    tl.store(DELTA + (text * heads + head) * length + position, delta, mask=row < rows)


@triton.jit
def _score_gradient(logits, grad_weights, lse, delta, words, key_words, threshold, grow, DROP: tl.constexpr):
    """Return the weights, and the gradient of the logits, from that of the weights after dropout."""
    weights = tl.exp2(logits * LOG2E - lse)
    if DROP:
        grad_weights *= tl.where(dropout_keep(words, key_words, threshold), grow, 0.0)
    return weights, weights * (grad_weights - delta)


@triton.jit
def _row_of(pointers, positions, length, beyond, EVEN: tl.constexpr):
    return tl.load(pointers + positions) if EVEN else tl.load(pointers + positions, positions < length, other=beyond)


@triton.jit
def _barrier(sums):
    """Wait for the sums. On Hopper a product still under way would make the next ones wait one by one."""
    return sums.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)


@triton.jit
def query_gradient(
    Q, K, V, M, GRAD, LSE, DELTA, WORDS, SEED, DQ, qb, qh, ql, kb, kh, kl, vb, vh, vl, mb, mh, mq, mk,
    heads, length, scale, threshold, grow,
    KIND: tl.constexpr, DROP: tl.constexpr, EVEN: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    text, head, start = _here(heads, length, BM)
    m, n, d = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    place = ((text * length + m) * heads + head)[:, None] * D + d
    q = _read(Q + text * qb + head * qh + m[:, None] * ql + d, (m < length)[:, None], EVEN)
    grad = _read(GRAD + place, (m < length)[:, None], EVEN)
    row = (text * heads + head) * length
    lse = _row_of(LSE + row, m, length, float("inf"), EVEN)  # infinite: no weight for queries beyond the last
    delta = _row_of(DELTA + row, m, length, 0.0, EVEN)
    words = _row_of(WORDS + row, m, length, 0, EVEN) if DROP else tl.zeros([BM], tl.int32)
    K += text * kb + head * kh
    V += text * vb + head * vh
    M += text * mb + head * mh
    dq = tl.zeros([BM, D], tl.float32)
    for first in range(0, length, BN):
        keys = first + n
        real = (keys < length)[None, :]
        inside = (m < length)[:, None] & real
        k = _read(K + keys[None, :] * kl + d[:, None], real, EVEN)
        v = _read(V + keys[None, :] * vl + d[:, None], real, EVEN)
        mask = _mask_tile(M, m[:, None], keys[None, :], mq, mk, inside, KIND, EVEN)
        key_words = _row_of(SEED + 2, keys, length, 0, EVEN) if DROP else keys
        products, grad_weights = tl.dot(q, k), tl.dot(grad, v)
        logits = _logits(products, mask, keys[None, :], length, scale, KIND, EVEN)
        _, ds = _score_gradient(
            logits, grad_weights, lse[:, None], delta[:, None], words[:, None], key_words[None, :], threshold, grow,
            DROP,
        )  # fmt: skip
        dq = _barrier(tl.dot(ds.to(k.dtype), tl.trans(k), dq))
    tl.store(DQ + place, (dq * scale).to(DQ.dtype.element_ty), mask=(m < length)[:, None])


@triton.jit
def key_value_gradient(
    Q, K, V, M, GRAD, LSE, DELTA, WORDS, SEED, DK, DV, qb, qh, ql, kb, kh, kl, vb, vh, vl, mb, mh, mq, mk,
    heads, length, scale, threshold, grow,
    KIND: tl.constexpr, DROP: tl.constexpr, EVEN: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Go over all queries with a block of keys. Tiles are transposed, so that no weights need to be."""
    text, head, start = _here(heads, length, BN)
    n, m, d = start + tl.arange(0, BN), tl.arange(0, BM), tl.arange(0, D)
    real = (n < length)[:, None]
    k = _read(K + text * kb + head * kh + n[:, None] * kl + d, real, EVEN)
    v = _read(V + text * vb + head * vh + n[:, None] * vl + d, real, EVEN)
    key_words = (_row_of(SEED + 2, n, length, 0, EVEN) if DROP else n)[:, None]
    row = (text * heads + head) * length
    Q += text * qb + head * qh
    GRAD += (text * length * heads + head) * D
    M += text * mb + head * mh
    dk, dv = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    for first in range(0, length, BM):
        queries = first + m
        inside = real & (queries < length)[None, :]
        q = _read(Q + queries[None, :] * ql + d[:, None], (queries < length)[None, :], EVEN)
        grad = _read(GRAD + queries[:, None] * (heads * D) + d, (queries < length)[:, None], EVEN)
        lse = _row_of(LSE + row, queries, length, float("inf"), EVEN)
        delta = _row_of(DELTA + row, queries, length, 0.0, EVEN)
        words = _row_of(WORDS + row, queries, length, 0, EVEN) if DROP else tl.zeros([BM], tl.int32)
        mask = _mask_tile(M, queries[None, :], n[:, None], mq, mk, inside, KIND, EVEN)
        products, grad_weights = tl.dot(k, q), tl.dot(v, tl.trans(grad))
        logits = _logits(products, mask, n[:, None], length, scale, KIND, EVEN)
        weights, ds = _score_gradient(
            logits, grad_weights, lse[None, :], delta[None, :], words[None, :], key_words, threshold,
            grow, DROP,
        )  # fmt: skip
        if DROP:
            weights *= tl.where(dropout_keep(words[None, :], key_words, threshold), grow, 0.0)
        dv = tl.dot(weights.to(grad.dtype), grad, dv)
        dk = _barrier(tl.dot(ds.to(q.dtype), tl.trans(q), dk))
    place = ((text * length + n) * heads + head)[:, None] * D + d
    tl.store(DK + place, (dk * scale).to(DK.dtype.element_ty), mask=real)
    tl.store(DV + place, dv.to(DV.dtype.element_ty), mask=real)


@triton.jit
def mask_gradient(
    Q, K, V, M, GRAD, LSE, DELTA, WORDS, SEED, DM, qb, qh, ql, kb, kh, kl, vb, vh, vl, mb, mh, mq, mk,
    heads, length, scale, threshold, grow, share,
    KIND: tl.constexpr, DROP: tl.constexpr, EVEN: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of one tile of a mask: the logits', summed over the heads that have this mask."""
    pid = tl.program_id(0)
    across, down = tl.cdiv(length, BN), tl.cdiv(length, BM)
    m = (pid // across % down) * BM + tl.arange(0, BM)
    n, d = (pid % across) * BN + tl.arange(0, BN), tl.arange(0, D)
    number = (pid // (across * down)).to(tl.int64)
    text, each = number * share // heads, (number * share % heads).to(tl.int32)
    inside = (m < length)[:, None] & (n < length)[None, :]
    mask = _mask_tile(M + text * mb + each * mh, m[:, None], n[None, :], mq, mk, inside, KIND, EVEN)
    key_words = (_row_of(SEED + 2, n, length, 0, EVEN) if DROP else n)[None, :]
    Q += text * qb + m[:, None] * ql + d
    K += text * kb + n[None, :] * kl + d[:, None]
    V += text * vb + n[None, :] * vl + d[:, None]
    GRAD += (text * length + m)[:, None] * (heads * D) + d
    dm = tl.zeros([BM, BN], tl.float32)
    for head in range(each, each + share):
        q = _read(Q + head * qh, (m < length)[:, None], EVEN)
        k = _read(K + head * kh, (n < length)[None, :], EVEN)
        v = _read(V + head * vh, (n < length)[None, :], EVEN)
        grad = _read(GRAD + head * D, (m < length)[:, None], EVEN)
        row = (text * heads + head) * length
        lse = _row_of(LSE + row, m, length, float("inf"), EVEN)
        delta = _row_of(DELTA + row, m, length, 0.0, EVEN)
        words = _row_of(WORDS + row, m, length, 0, EVEN) if DROP else tl.zeros([BM], tl.int32)
        products, grad_weights = tl.dot(q, k), tl.dot(grad, v)
        logits = _logits(products, mask, n[None, :], length, scale, KIND, EVEN)
        _, ds = _score_gradient(
            logits, grad_weights, lse[:, None], delta[:, None], words[:, None], key_words, threshold, grow, DROP
        )
        dm += ds
    tl.store(DM + (number * length + m)[:, None] * length + n, dm.to(DM.dtype.element_ty), mask=inside)
