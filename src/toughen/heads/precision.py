"""Where the second-order statistics are computed: never below float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ..tensors import HALF

TINY = 1e-12  # where F.normalize stops dividing


def at_least_float32(x: Tensor) -> Tensor:
    """float16 and bfloat16 as float32, all else untouched: a covariance of 8-bit mantissas is mostly rounding."""
    return x.float() if x.dtype in HALF else x


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Keep autocast from casting the matrix products inside back to half precision."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.autocast(x.device.type, enabled=False)
    return nullcontext()


def floor_of(x: Tensor) -> float:
    """The smallest magnitude whose square does not underflow in the type of `x`."""
    return torch.finfo(x.dtype).tiny ** 0.5
