"""What wrapped models need to know: which passes exchange no gradients, and when a run of passes is over."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn

from .foreach import copy_all, swap_storage


def no_sync(model: nn.Module) -> AbstractContextManager[Any]:
    """Exchange no gradients in this block, for DDP and FSDP2; forward and backward must both be inside."""
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


def is_single_process() -> bool:
    """Tell whether there is no other process, and so no wrapper that shards the weights."""
    return not (distributed.is_available() and distributed.is_initialized())


def wait_for_all() -> None:
    """Return when every process is here; at once if there is no other."""
    if not is_single_process():
        distributed.barrier()


def reshard(model: nn.Module) -> None:
    """Put the weights of an FSDP2 model back into shards after passes that no backward followed.

    The outermost weights stay gathered from a forward pass until its backward. Without one, the next passes would go
    on with the gathered copies, whatever the optimizer or a method did to the shards, and `parameters()` would show
    copies without gradients.
    """
    if is_single_process():
        return  # the walk over all modules is felt in a captured step
    for module in model.modules():
        if hasattr(module, "set_requires_gradient_sync"):
            cast(Any, module).reshard()


@torch.no_grad()
def swap_weights(model: nn.Module, weights: Sequence[nn.Parameter], values: Sequence[Tensor]) -> Callable[[], None]:
    """Give weights of the model other values, until the function that is returned is called.

    They exchange their memory, so that nothing is copied. With several processes they are copied, as wrappers that
    shard weights keep addresses of their own.
    """
    swapped = is_single_process()
    before = values if swapped else [weight.detach().clone() for weight in weights]
    swap_storage(weights, values) if swapped else copy_all(weights, values)
    torch.clear_autocast_cache()  # it would go on serving half-precision copies of the weights before

    @torch.no_grad()
    def restore() -> None:
        reshard(model)
        swap_storage(weights, before) if swapped else copy_all(weights, before)
        torch.clear_autocast_cache()

    return restore
