"""The captured step of a plain PyTorch loop."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..engine.attached import Attached
from ..errors import MethodError
from ..internal.foreach import HALF
from .eligibility import can_pack, method_reason
from .graph_cache import GraphCache
from .optimizer import CapturedUpdate
from .packing import Packing, packing_of, padding_token, real_tokens, tokens_to_compute, without_idle_mask


class Options(TypedDict, total=False):
    """What `CapturedStep` can be told, for `attached.captured`."""

    backward: Callable[[Tensor], Any] | None
    pack: bool
    optimizer: Optimizer | None
    max_norm: float | None


class CapturedStep:
    """`attached.backward` of a plain loop, captured: returns the loss, detached, and leaves gradients on the weights.

    With an `optimizer` it makes the whole update: gradients are clipped to `max_norm`, the weights move, and the
    gradients are cleared. Fused Adam and AdamW are captured as well, others run as they are.

    Give it batches as the loader makes them: of a mask on the CPU it is known what is padding, which is then left out
    of the layers where that pays (`pack`).
    """

    def __init__(
        self,
        attached: Attached,
        model: nn.Module,
        backward: Callable[[Tensor], Any] | None = None,
        pack: bool = True,
        optimizer: Optimizer | None = None,
        max_norm: float | None = None,
    ) -> None:
        if optimizer is None and max_norm is not None:
            raise MethodError("max_norm= clips in an update, which needs its optimizer=; clip yourself without one.")
        if optimizer is not None and backward is not None:
            raise MethodError("backward= (a GradScaler) makes updates of its own: leave optimizer= out.")
        self.attached, self.model, self._backward = attached, model, backward
        self.captured = GraphCache(attached, model)
        self.update = None if optimizer is None else CapturedUpdate(self.captured, optimizer)
        self.max_norm = max_norm
        self._undecided = pack and can_pack(attached.states)
        self.packing: Packing | None = None

    @property
    def obstacle(self) -> str | None:
        return self.captured.obstacle

    @property
    def steps(self) -> dict[str, int]:
        return self.captured.steps

    def __call__(self, batch: Mapping[str, Any], *, accumulate: int = 1, last: bool = True) -> Tensor:
        if self._undecided:  # until now, as autocast is on round the step and seldom round its making
            half = torch.is_autocast_enabled("cuda") or next(self.model.parameters()).dtype in HALF
            self.packing, self._undecided = packing_of(self.model, half), False
        real = real_tokens(batch, padding_token(self.attached.model))
        tokens = tokens_to_compute(batch, real) if self.packing is not None else None
        batch = without_idle_mask(batch, real)

        update = self.update if last else None
        part = None if update is None else update.as_part()
        move = None if update is None else partial(update.outside if part is None else update.inside, self.max_norm)

        def run(inputs: dict[str, Any]) -> Tensor:
            with nullcontext() if self.packing is None else self.packing.of(inputs, tokens):
                loss = self.attached.backward(
                    self.model, inputs, accumulate=accumulate, last=last, backward=self._backward, step=move
                )
            if part is not None and move is not None:
                move()
            return loss

        also = (accumulate, tokens, part, self.max_norm)
        backward_passes = self.attached.backward_passes(last)
        obstacle = method_reason(self.attached.states, backward_passes, last, updates=part is not None)
        loss = self.captured(run, batch, last=last, several=len(backward_passes) > 1, also=also, obstacle=obstacle)
        if part is None and move is not None:
            move()
        return loss

    def close(self) -> None:
        """Give the model its own attention back, and the graphs' memory."""
        if self.packing is not None:
            self.packing.detach()
        self.captured.clear()
