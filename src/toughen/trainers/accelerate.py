"""A method in a loop of one's own with Accelerate."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from torch import Tensor, nn

from ..combine.base import BackwardPass
from ..engine.attached import Attached


def accelerate_backward(
    accelerator: Any,
    attached: Attached,
    model: nn.Module,
    batch: Mapping[str, Any],
    *,
    step: Callable[[], Any] | None = None,
) -> Tensor:
    """Forward and backward for one batch; stands in place of `accelerator.backward(model(**batch).loss)`.

    Works inside `accelerator.accumulate(model)`; Accelerate divides by the number of micro-batches and scales for
    half precision. Returns the loss, detached. Methods that go over the whole window once more (SAM, AWP, FreeAT) make
    their passes at its last micro-batch: the loss there is the window's sum, and that of the others 0.
    """
    sync: bool = accelerator.sync_gradients
    backward_passes = attached.backward_passes(last=sync)

    def no_sync() -> Any:
        # accumulate() already holds no_sync open when sync is off, and it does not nest under FSDP2.
        return accelerator.no_sync(model) if sync else nullcontext()

    state = accelerator.gradient_state

    def take(each: BackwardPass) -> Tensor:
        state._set_sync_gradients(each.sync_gradients)  # DeepSpeed steps its engine inside backward when True
        loss = next(losses)
        accelerator.backward(loss)
        return loss

    losses = attached.losses(lambda inputs: model(**inputs), batch, last=sync, no_sync=no_sync)
    try:
        return attached.run_backward_passes(losses, backward_passes, take, no_sync=no_sync, step=step)
    finally:
        state._set_sync_gradients(sync)
