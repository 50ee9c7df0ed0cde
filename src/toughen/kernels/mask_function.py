"""The kernels of `search.mask_function` on tensors."""

from typing import Any

import torch
from torch import Tensor

from . import supports

LONGEST = 16384  # of a row that one program can hold
PAIRS = 4096  # of a program


def fits(query: Tensor, pairs: Tensor | None) -> bool:
    """Tell whether the kernels can take scores of such queries, with a model's mask that is the same for all heads."""
    shared = pairs is None or (pairs.dim() == 4 and pairs.shape[1] == 1)
    return shared and supports(query) and query.shape[-2] <= LONGEST


class Rows:
    """Scores (texts, masks, L, L) with what says how each row of them is read."""

    def __init__(self, scores: Tensor, draw: Tensor | None, pairs: Tensor | None, queries: Tensor | None) -> None:
        self.scores = scores.contiguous()
        self.texts, self.masks, self.length, _ = scores.shape
        place = real = scores  # never read, as are the others where they are missing
        if draw is not None:
            counted = (
                torch.ones(1, self.length, dtype=torch.int32, device=scores.device) if queries is None else queries
            )
            place = (counted.cumsum(1, dtype=torch.int32) - 1).expand(self.texts, -1).contiguous()
        if queries is not None:
            real = queries.contiguous().view(torch.uint8)
        wide, strides = scores, (0, 0, 0)
        if pairs is not None:
            wide = pairs.expand(self.texts, 1, self.length, self.length).view(torch.uint8)
            strides = (wide.stride(0), wide.stride(2), wide.stride(3))
        self.first = (self.scores, scores if draw is None else draw, place, real, wide)
        self.sizes = (self.masks, self.length, *strides)
        self.flags = {"DRAW": draw is not None, "PADDED": queries is not None, "PAIRED": pairs is not None}

    def run(self, kernel: Any, tensors: tuple[Tensor, ...], numbers: tuple[float | Tensor, ...], **flags: bool) -> None:
        columns = 1 << (self.length - 1).bit_length()
        rows = max(1, PAIRS // columns)
        programs = self.texts * self.masks * -(-self.length // rows)
        with torch.cuda.device_of(self.scores):
            kernel[(programs,)](
                *self.first, *tensors, *self.sizes, *numbers, **self.flags, **flags, BM=rows, BN=columns, num_warps=8
            )


def hide(
    rows: Rows, scale: float, offset: float, low: float, spare: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the additive mask, and for each text the number of visible pairs in all its masks, and of all pairs."""
    from . import mask_function_triton as triton

    bias = torch.empty_like(rows.scores, dtype=dtype)
    seen, among = torch.empty(2, rows.texts, rows.masks, rows.length, dtype=torch.int32, device=bias.device)
    rows.run(triton.hide, (bias, seen, among), (scale, offset, low), SPARE=spare)
    return bias, seen.sum((1, 2), dtype=torch.float32), among.sum((1, 2), dtype=torch.float32)


def score_gradient(
    rows: Rows,
    grad: Tensor,
    price: Tensor,
    scale: float,
    offset: float,
    slope: float,
    sharpness: float | Tensor,
    factor: float | Tensor,
) -> Tensor:
    """Compute the gradient of the scores, from the mask's and the `price` (texts,) of a visible pair.

    `sharpness` is one over the temperature, and `factor` what all is multiplied by.
    """
    from . import mask_function_triton as triton

    out, value_tensors = torch.empty_like(rows.scores), isinstance(sharpness, Tensor) or isinstance(factor, Tensor)
    if value_tensors:
        sharpness, factor = (
            x.to(torch.float32) if isinstance(x, Tensor) else price.new_full((), x) for x in (sharpness, factor)
        )
    numbers = (scale, offset, slope, sharpness, factor)
    rows.run(triton.score_gradient, (grad.contiguous(), price, out), numbers, DIALS=value_tensors)
    return out
