"""Kernels of our own for NVIDIA GPUs: the same mathematics as the code they stand in for, with less of it in memory.

Written in Triton, which comes with torch's CUDA builds. Where it is missing, on other devices and in full precision
everything runs as it is written in torch.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ..internal.foreach import HALF

enabled = True  # set to False, the torch code runs everywhere
HAS_TRITON = find_spec("triton") is not None


def supports(tensor: Tensor) -> bool:
    """Tell whether our kernels may run on such a tensor."""
    return enabled and HAS_TRITON and tensor.is_cuda and tensor.dtype in HALF and _capable()


@torch.compiler.assume_constant_result
def _capable() -> bool:
    """Ampere and newer: before it there is no bfloat16 to compute in."""
    return torch.version.hip is None and torch.cuda.get_device_capability() >= (8, 0) and triton_works()


@cache
def triton_works() -> bool:
    """Tell whether Triton is there and can build its part in C, for which it needs a compiler; looked at once."""
    if not HAS_TRITON:
        return False
    try:
        from triton.runtime import driver  # pyright: ignore[reportMissingImports]

        driver.active.get_current_target()
    except Exception as error:
        warnings.warn(f"Triton does not work here; torch runs instead, more slowly: {error}", stacklevel=3)
        return False
    return True
