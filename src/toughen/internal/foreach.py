"""Many tensors at once: one launch for a list, and each process's own shards where they are sharded (FSDP2)."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
TINY = 1e-12  # where F.normalize stops dividing
_torch: Any = torch  # the list operations have leading underscores, in torch's own optimizers too


def half_dtype(tensor: Tensor) -> torch.dtype | None:
    """Return the half precision in which layers compute with this tensor, its own or autocast's, or None.

    Ask inside the forward pass: Accelerate enables autocast only there.
    """
    device = tensor.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
    return dtype if dtype in HALF else None


def at_least_float32(x: Tensor) -> Tensor:
    """Convert float16 and bfloat16 to float32, and nothing else."""
    return x.float() if x.dtype in HALF else x


def floor_of(x: Tensor) -> float:
    """Return the smallest magnitude whose square does not underflow in the type of `x`."""
    return torch.finfo(x.dtype).tiny ** 0.5


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Keep autocast from casting the matrix products inside back to half precision."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.autocast(x.device.type, enabled=False)
    return nullcontext()


def local_shard(tensor: Tensor) -> Tensor:
    """Return a process's own shard of a sharded tensor, the tensor itself otherwise."""
    return cast(Any, tensor).to_local() if hasattr(tensor, "to_local") else tensor


def _own(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [local_shard(tensor) for tensor in tensors]


def copy_all(targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    if targets:
        _torch._foreach_copy_(_own(targets), _own(values))


def swap_storage(some: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Exchange the memory of each with its counterpart, without a copy. Not for shards: others have their address."""
    for one, other in zip(some, others, strict=True):
        one.data, other.data = other.data, one.data


def add_pairs(some: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """Return the sums in new memory and the first ones' dtype; of sharded tensors those of the own shards."""
    own = _own(some)
    return [x.to(one.dtype) for x, one in zip(_torch._foreach_add(own, _own(others)), own, strict=True)]


def add(targets: Sequence[Tensor], moves: Sequence[Tensor]) -> None:
    if targets:
        _torch._foreach_add_(_own(targets), _own(moves))


def lerp_all(targets: Sequence[Tensor], values: Sequence[Tensor], share: float) -> None:
    """Target <- target + share * (value - target)"""
    _torch._foreach_lerp_(_own(targets), _own(values), share)


def scale(targets: Sequence[Tensor], factors: Tensor | Sequence[Tensor]) -> None:
    """Target <- target * factor: one number for all, or each its own number or tensor of its shape."""
    _torch._foreach_mul_(_own(targets), factors if isinstance(factors, Tensor) else list(factors))


def absolute(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the absolute values, of sharded tensors those of the own shards."""
    return _torch._foreach_abs(_own(tensors))


def clamp_abs(targets: Sequence[Tensor], limits: Sequence[Tensor]) -> None:
    """Clamp each element to plus or minus its limit, which is given in own shards and written over."""
    _torch._foreach_clamp_max_(_own(targets), limits)
    _torch._foreach_neg_(limits)
    _torch._foreach_clamp_min_(_own(targets), limits)


def nan_to_zero(targets: Sequence[Tensor]) -> None:
    """Set NaN and infinity to zero."""
    for target in _own(targets):
        target.nan_to_num_(0.0, 0.0, 0.0)


def zero(targets: Sequence[Tensor]) -> None:
    if targets:
        _torch._foreach_zero_(_own(targets))


def l2_norms(tensors: Sequence[Tensor]) -> Tensor:
    """Return the l2 norm of each tensor, in float32 at least; of sharded ones over all their shards."""
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    found = _torch._foreach_norm(list(tensors), 2, dtype=wide)
    return torch.stack([n.full_tensor() if hasattr(n, "full_tensor") else n for n in found])


def l2_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the l2 norm of several tensors as one vector."""
    return torch.linalg.vector_norm(l2_norms(tensors))
