"""Random words for pairs of positions, inside a kernel. Unsigned, modulo 2^32. In torch: `search.counter_rng`."""

# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl


@triton.jit
def mixed(x):
    """Mix: every bit of the result depends on every bit of the input (the finaliser of MurmurHash3)."""
    x = x.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def permute(x):
    """Permute, which bends the lattice on which sums of products lie (Rivest et al. 1998, RC6)."""
    return x * (2 * x + 1)


@triton.jit
def row_words(seed, text, rows):
    """Return a word for every query of one text's head, from two drawn ones."""
    return mixed(mixed(rows ^ tl.load(seed + 1)) + mixed(text + tl.load(seed)))


@triton.jit
def dropout_keep(rows, columns, threshold):
    """Tell which pairs dropout keeps, from random words (signed) for their queries and for their keys.

    The product modulo 2^32 is compared, one instruction where a hash of the pair takes ten: kernels for half precision
    are bound by what they do to single elements. A few pairs of a row cannot be distinguished from the others, as the
    keys' words are drawn and not computed: sums of a few of them with small factors are 0 by chance alone.
    """
    return rows * columns >= threshold
