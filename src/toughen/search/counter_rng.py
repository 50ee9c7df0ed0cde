"""Random numbers for pairs of positions, as a function of the pair.

A stream cannot be used here: a longer text, or padding behind it, would shift it, and the backward pass needs the same
numbers again. These are computed from a drawn key and the pair's place, on every device the same.
"""

import torch
from torch import Tensor


def logistic_noise(key: Tensor, shape: torch.Size, dtype: torch.dtype, real: Tensor | None = None) -> Tensor:
    """Standard logistic noise of shape (batch, masks, length, length): the difference of two Gumbel variables.

    `real` (batch, length) says which positions are no padding: they are counted, so that padding on either side changes
    nothing.

    Each row is a * column + b with random words a, b for the row and a random word for the column, which makes its
    elements pairwise independent; the permutation x(2x+1) then bends the lattice such a row lies on (Rivest et al.
    1998, RC6). All is modulo 2^32. Two passes over the large tensor are all it costs.
    """
    batch, masks, length, _ = shape
    if real is None:
        position = torch.arange(length, device=key.device, dtype=torch.int32).view(1, 1, length)
    else:
        position = (real.cumsum(1, dtype=torch.int32) - 1).view(batch, 1, length)
    text = torch.arange(batch * masks, device=key.device, dtype=torch.int32).view(batch, masks, 1)
    factor = _murmur_mix(position + _murmur_mix(text + key[0])).unsqueeze(-1)
    offset = _murmur_mix(factor + key[1])
    column = (_murmur_mix(position - key[1]) | 1).unsqueeze(-2)
    words = torch.addcmul(offset, factor, column)
    torch.addcmul(words, words, words, value=2, out=words)
    uniform = words.to(torch.float32).mul_(2.0**-32).add_(0.5)
    return torch.logit_(uniform, eps=2.0**-24).to(dtype)


def _murmur_mix(x: Tensor) -> Tensor:
    """Every bit of the result depends on every bit of the input (the finaliser of MurmurHash3)."""
    for shift, factor in ((16, -0x7A143595), (13, -0x3D4D51CB)):
        x = (x ^ _shift_right(x, shift)) * factor
    return x ^ _shift_right(x, 16)


def _shift_right(x: Tensor, by: int) -> Tensor:
    """A shift to the right that fills with zeros."""
    return (x >> by) & ((1 << (32 - by)) - 1)
