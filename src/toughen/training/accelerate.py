"""A method in a loop of one's own with Accelerate."""

from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..attached import Attached
from ..errors import MethodError


def accelerated_backward(
    accelerator: Any,
    attached: Attached,
    model: nn.Module,
    batch: Mapping[str, Any],
    *,
    step: Callable[[], Any] | None = None,
) -> Tensor:
    """Forward and backward for one batch; stands in place of `accelerator.backward(model(**batch).loss)`.

    Works inside `accelerator.accumulate(model)`; Accelerate divides by the number of micro-batches and scales for
    half precision. Returns the loss, detached.
    """
    sync: bool = accelerator.sync_gradients
    turns = attached.turns(last=sync)
    if step is None and any(turn.step for turn in turns):
        raise MethodError("This method updates the weights after every pass (FreeAT): give the update as step=...")

    def quiet() -> Any:
        # accumulate() already holds no_sync open when sync is off, and it does not nest under FSDP2.
        return accelerator.no_sync(model) if sync else nullcontext()

    losses = attached.losses(lambda: model(**batch), batch, last=sync, quiet=quiet)
    state, total = accelerator.gradient_state, list[Tensor]()
    try:
        with closing(losses):  # also after an error: weights moved by SAM go back at once
            for turn in turns:
                state._set_sync_gradients(turn.sync)  # DeepSpeed steps its engine inside backward when True
                with nullcontext() if turn.sync else quiet():
                    loss = next(losses)
                    accelerator.backward(loss)
                if turn.kept:
                    total.append(loss.detach())
                if turn.step and step is not None:
                    step()
            next(losses, None)  # runs what stands after the last yield
    finally:
        state._set_sync_gradients(sync)
    return torch.stack(total).sum() if total else torch.zeros((), device=accelerator.device)
