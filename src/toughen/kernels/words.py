"""Random words for pairs of positions, inside a kernel. Unsigned, modulo 2^32. `search.noise` has the torch twin."""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl


@triton.jit
def mixed(x):
    """Every bit of the result depends on every bit of the input (the finaliser of MurmurHash3)."""
    x = x.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def bent(x):
    """A permutation that bends the lattice on which sums of products lie (Rivest et al. 1998, RC6)."""
    return x * (2 * x + 1)


@triton.jit
def row_words(seed, text, rows):
    """A word for every query of one text's head: the only thing a forward pass keeps of its dropout."""
    return mixed(mixed(rows ^ tl.load(seed + 1)) + mixed(text + tl.load(seed)))


@triton.jit
def kept(rows, columns, threshold):
    """Which pairs dropout keeps, from the words of their queries and the numbers of their keys, ready to broadcast.

    A row is a * column + b, as in the noise of `search.noise`. A column's word is cheaper here, as every thread works
    out half as many of them as it has pairs.
    """
    columns = columns.to(tl.uint32) * 0x9E3779B1
    columns = ((columns ^ (columns >> 15)) * 0x85EBCA6B) | 1
    rows = rows.to(tl.uint32, bitcast=True)
    word = bent(rows * columns + (rows ^ (rows >> 15)) * 0x2C1B3C6D)
    return word.to(tl.int32, bitcast=True) >= threshold
