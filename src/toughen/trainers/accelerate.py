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
    """Run forward and backward for one batch, in place of `accelerator.backward(model(**batch).loss)`.

    Works inside `accelerator.accumulate(model)`; Accelerate divides by the number of micro-batches and scales for
    half precision. Methods that go over the whole window once more (SAM, AWP, FreeAT) make their passes at its last
    micro-batch: the loss there is the window's sum, and that of the others 0.

    Args:
        accelerator: The Accelerator.
        attached: The method on the model.
        model: The model, as `prepare` returned it.
        batch: The micro-batch, by the names that the model takes.
        step: Updates the weights and clears gradients between passes, for FreeAT.

    Returns:
        The loss, detached.

    Raises:
        MethodError: The method was detached, or FreeAT has no `step`.

    Examples:
        >>> from accelerate import Accelerator
        >>> accelerator = Accelerator(cpu=True)
        >>> prepared = accelerator.prepare(model)
        >>> with toughen.r3f().attach(prepared, tokenizer) as attached:
        ...     loss = toughen.accelerate_backward(accelerator, attached, prepared, batch)
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
