"""Random tensors, views and masks for the laws: hypothesis draws shapes and seeds, torch the numbers."""

from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from toughen.sites.base import Activation

few = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6))
sizes = st.sampled_from([1e-24, 1e-12, 1e-3, 1.0, 1e3, 1e12])  # the squares of the outer ones leave float32


def tensor(shape: tuple[int, ...], seed: int, size: float = 1.0, dtype: Any = torch.float32) -> Tensor:
    return size * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mask(shape: tuple[int, ...], seed: int) -> Tensor:
    """Some tokens of some examples, perhaps none."""
    return torch.rand(shape[:2], generator=torch.Generator().manual_seed(seed + 1)).lt(0.6).unsqueeze(-1)


def view(shape: tuple[int, ...], seed: int, masked: bool = True, dtype: Any = torch.float32) -> Activation:
    value = tensor(shape, seed + 2, dtype=dtype)
    return Activation(value, mask(shape, seed) if masked else None, random=torch.Generator().manual_seed(seed))
