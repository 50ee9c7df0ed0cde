"""Attention under a mask that learns, as an operator that autograd and torch.compile know."""

from typing import Any

import torch
from torch import Tensor

from . import supports

WIDTHS = (16, 32, 64, 128)  # of a head
# Of each kernel: queries and keys in a tile, warps, stages of its pipeline. Fixed, as nothing may be tried out while a
# step is captured; chosen for Hopper, where more registers than these take would leave too few warps on a processor.
NARROW = {
    "forward": (64, 64, 4, 3),
    "query_gradient": (128, 32, 8, 2),
    "key_value_gradient": (64, 64, 4, 2),
    "mask_gradient": (128, 64, 8, 2),
}
WIDE = {
    "forward": (128, 64, 8, 2),
    "query_gradient": (64, 64, 4, 2),
    "key_value_gradient": (64, 64, 4, 2),
    "mask_gradient": (64, 64, 4, 2),
}


def fits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Tell whether `attend` can take the place of torch's attention here."""
    same = query.shape == key.shape == value.shape and query.dtype == key.dtype == value.dtype
    if not same or not supports(query) or query.shape[-1] not in WIDTHS:
        return False
    if mask is None:
        return True
    whole = (*query.shape[:3], query.shape[2])
    if mask.dtype == torch.bool:
        return mask.dim() == 4 and all(n in (1, most) for n, most in zip(mask.shape, whole, strict=True))
    return mask.dtype == query.dtype and mask.shape in (whole, (whole[0], 1, *whole[2:]))


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, dropout: float) -> Tensor:
    """softmax(query key^T * scale + mask) value, as (batch, L, heads, width).

    `mask` is additive, (batch, 1 or heads, L, L), or True where a pair is visible, of any shape that broadcasts to it.
    A query without any visible key attends to all alike. Dropout is drawn from torch's generator of the device and does
    not depend on the mask: two passes from the same random state drop the same pairs.
    """
    return _attend(query, key, value, mask, scale, dropout)[0]


@torch.library.custom_op("toughen::attend", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, dropout: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from . import attention_triton as triton

    call = _Call(query, key, value, mask, scale, dropout)
    out, lse, words, drawn = _empty(call.query, dropout)
    if dropout:  # drawn in here, so that a compiled layer draws as an eager one does
        drawn.random_(-(2**31), 2**31)
    call.run(triton.forward, call.count("forward", 0), out, lse, words, drawn)
    return out, lse, words, drawn


@_attend.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, dropout: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _empty(query, dropout)


def _empty(query: Tensor, dropout: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Allocate the output and what is kept for the backward pass.

    That is a number for each query, and for dropout a random word for each query of each head, and one for each key
    behind two that the queries' are made from.
    """
    batch, heads, length, width = query.shape
    out = query.new_empty(batch, length, heads, width)
    lse = query.new_empty(batch, heads, length, dtype=torch.float32)
    words = query.new_empty((batch, heads, length) if dropout else (0,), dtype=torch.int32)
    return out, lse, words, query.new_empty(length + 2 if dropout else 0, dtype=torch.int32)


@torch.library.custom_op("toughen::attend_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor,
    words: Tensor, drawn: Tensor, scale: float, dropout: float, learnt: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    from . import attention_triton as triton

    grad = grad.contiguous()
    call = _Call(query, key, value, mask, scale, dropout)
    dq, dk, dv, dm = _empty_gradients(call.query, mask, learnt)
    delta = torch.empty_like(lse)
    rows, (_, heads, length, width) = lse.numel(), query.shape
    block = 4096 // width
    products: Any = triton.products
    with torch.cuda.device_of(query):
        products[(-(-rows // block),)](out, grad, delta, rows, heads, length, D=width, ROWS=block)
    call.run(triton.query_gradient, call.count("query_gradient", 0), grad, lse, delta, words, drawn, dq)
    call.run(triton.key_value_gradient, call.count("key_value_gradient", 1), grad, lse, delta, words, drawn, dk, dv)
    if learnt:
        masks = dm.shape[1]
        tiles = call.tiles("mask_gradient", masks)
        call.run(triton.mask_gradient, tiles, grad, lse, delta, words, drawn, dm, share=heads // masks)
    return dq, dk, dv, dm


@_attend_backward.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor,
    words: Tensor, drawn: Tensor, scale: float, dropout: float, learnt: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return _empty_gradients(query, mask, learnt)


def _empty_gradients(query: Tensor, mask: Tensor | None, learnt: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, heads, length, width = query.shape
    dq, dk, dv = (query.new_empty(batch, length, heads, width) for _ in range(3))
    return dq, dk, dv, query.new_empty(mask.shape if learnt and mask is not None else (0,))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    query, key, value, mask, ctx.scale, ctx.dropout = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(query, key, value, mask, *output)


def _gradients(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    learnt = bool(ctx.needs_input_grad[3])
    dq, dk, dv, dm = _attend_backward(grad, *ctx.saved_tensors, ctx.scale, ctx.dropout, learnt)
    return dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2), dm if learnt else None, None, None


_attend.register_autograd(_gradients, setup_context=_remember)


class _Call:
    """One pass: what all kernels of it are given."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, dropout: float
    ) -> None:
        laid = [x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value)]
        self.query, self.batch, self.heads, self.length = laid[0], *query.shape[:3]
        self.width = query.shape[3]
        self.blocks = NARROW if self.width <= 64 else WIDE
        self.kind = 0 if mask is None else 1 if mask.dtype == torch.bool else 2
        if mask is None:
            pairs, over = query, (0, 0, 0, 0)  # never read
        else:
            pairs = mask.view(torch.uint8) if self.kind == 1 else mask
            over = pairs.expand(self.batch, self.heads, self.length, self.length).stride()
        self.first = (*laid, pairs)
        strides = [x.stride(i) for x in laid for i in range(3)]
        threshold = min(round(dropout * 2**32), 2**32 - 1) - 2**31  # of a signed word
        grow = 1 / (1 - dropout) if dropout < 1 else 0.0
        self.last = (*strides, *over, self.heads, self.length, scale, threshold, grow)
        self.drop = dropout > 0

    def block(self, name: str) -> tuple[int, int, int, int]:
        """Tiles are not larger than the text, and small ones need fewer warps."""
        queries, keys, warps, stages = self.blocks[name]
        most = max(16, 1 << (self.length - 1).bit_length())
        queries, keys = min(queries, most), min(keys, most)
        return queries, keys, warps if queries * keys >= 4096 else 4, stages

    def count(self, name: str, side: int) -> int:
        """Count the programs over blocks of queries (side 0) or of keys, for each text and head."""
        return self.batch * self.heads * -(-self.length // self.block(name)[side])

    def tiles(self, name: str, masks: int) -> int:
        queries, keys, *_ = self.block(name)
        return self.batch * masks * -(-self.length // queries) * -(-self.length // keys)

    def run(self, kernel: Any, programs: int, *tensors: Tensor, **more: int) -> None:
        queries, keys, warps, stages = self.block(kernel.fn.__name__)
        even = self.length % queries == 0 and self.length % keys == 0
        with torch.cuda.device_of(self.query):
            kernel[(programs,)](
                *self.first, *tensors, *self.last, KIND=self.kind, DROP=self.drop, EVEN=even, D=self.width, BM=queries,
                BN=keys, num_warps=warps, num_stages=stages, **more,
            )  # fmt: skip
