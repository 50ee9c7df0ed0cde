"""Passes whose gradients are not exchanged between processes yet."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from torch import Tensor, nn


def unsynced(model: nn.Module) -> AbstractContextManager[Any]:
    """No gradient exchange in this block, for DDP and FSDP2; forward and backward must both be inside."""
    if hasattr(model, "no_sync"):
        return cast(Any, model).no_sync()
    if hasattr(model, "set_requires_gradient_sync"):
        return _unsharded_gradients(model)
    return nullcontext()


@contextmanager
def _unsharded_gradients(model: Any) -> Generator[None]:
    """FSDP2 has a switch and no way to ask for its position, so blocks inside blocks are counted here."""
    depth = getattr(model, "_toughen_unsynced", 0)
    model._toughen_unsynced = depth + 1
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model._toughen_unsynced = depth
        if depth == 0:
            model.set_requires_gradient_sync(True)


def local(weight: Tensor) -> Tensor:
    """A process's own shard of a sharded weight (FSDP2), the weight itself otherwise."""
    return cast(Any, weight).to_local() if hasattr(weight, "to_local") else weight
