"""Random numbers for pairs of positions, as a function of the pair.

A stream cannot be used here: a longer text, or padding behind it, would shift it, and the backward pass needs the same
numbers again. These are computed from a drawn key and the pair's place, on every device the same.
"""

from typing import TypeAlias

import torch
from torch import Tensor

Words: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Random words of rows and columns, from which `logistic_noise` makes those of pairs."""


def draw_words(key: Tensor, batch: int, masks: int, length: int, real: Tensor | None = None) -> Words:
    """Random words for pairs in (batch, masks, length, length); they take no more room than a row of these.

    `real` (batch, length) says which positions are no padding: they are counted, so that padding on either side changes
    nothing.

    Each row is a * column + b with random words a, b for the row and a random word for the column, which makes its
    elements pairwise independent; the permutation x(2x+1) then bends the lattice such a row lies on (Rivest et al.
    1998, RC6). All is modulo 2^32. Two passes over the large tensor are all it costs.
    """
    if real is None:
        position = torch.arange(length, device=key.device, dtype=torch.int32).view(1, 1, length)
    else:
        position = (real.cumsum(1, dtype=torch.int32) - 1).view(batch, 1, length)
    text = torch.arange(batch * masks, device=key.device, dtype=torch.int32).view(batch, masks, 1)
    factor = _murmur_mix(position + _murmur_mix(text + key[0])).unsqueeze(-1)
    offset = _murmur_mix(factor + key[1])
    return offset, factor, (_murmur_mix(position - key[1]) | 1).unsqueeze(-2)


def logistic_noise(words: Words, dtype: torch.dtype) -> Tensor:
    """Standard logistic noise of shape (batch, masks, length, length): the difference of two Gumbel variables."""
    pairs = torch.addcmul(*words)
    torch.addcmul(pairs, pairs, pairs, value=2, out=pairs)
    uniform = pairs.to(torch.float32).mul_(2.0**-32).add_(0.5)
    return torch.logit_(uniform, eps=2.0**-24).to(dtype)


def _murmur_mix(x: Tensor) -> Tensor:
    """Every bit of the result depends on every bit of the input (the finaliser of MurmurHash3)."""
    for shift, factor in ((_SHIFT_16, _FACTORS[0]), (_SHIFT_13, _FACTORS[1])):
        x = (x ^ _shift_right(x, shift)) * factor
    return x ^ _shift_right(x, _SHIFT_16)


def _shift_right(x: Tensor, by: tuple[Tensor, Tensor]) -> Tensor:
    """A shift to the right that fills with zeros."""
    return (x >> by[0]) & by[1]


def _constant(number: int) -> Tensor:
    """As a tensor: a Python number is converted to the other's type at each use, which takes longer than the rest."""
    return torch.tensor(number, dtype=torch.int32)


_SHIFT_16, _SHIFT_13 = ((_constant(by), _constant((1 << (32 - by)) - 1)) for by in (16, 13))
_FACTORS = _constant(-0x7A143595), _constant(-0x3D4D51CB)
