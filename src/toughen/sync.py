"""What wrapped models need to know: which passes exchange no gradients, and when a run of passes is over."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from torch import distributed, nn


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


def settle(model: nn.Module) -> None:
    """Put the weights of an FSDP2 model back into shards after passes that no backward followed.

    The outermost weights stay gathered from a forward pass until its backward. Without one, the next passes would go
    on with the gathered copies, whatever the optimizer or a method did to the shards, and `parameters()` would show
    copies without gradients.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return  # the walk over all modules is felt in a captured step
    for module in model.modules():
        if hasattr(module, "set_requires_gradient_sync"):
            cast(Any, module).reshard()
