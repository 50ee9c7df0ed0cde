"""The Trainer's steps as CUDA graphs."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..cuda_graphs.eligibility import can_pack, method_reason
from ..cuda_graphs.graph_cache import GraphCache
from ..cuda_graphs.optimizer import CapturedUpdate
from ..cuda_graphs.packing import packing_of, tokens_to_compute, without_idle_mask
from ..engine.attached import Attached
from .token_counts import COUNT

ITEMS = "toughen_items"  # the number of labels in an update travels with the batch


class CapturedTraining:
    """One micro-batch at a time through `passes(inputs, items)`, captured where it can be."""

    def __init__(self, attached: Attached, model: nn.Module, half: bool, optimizer: Optimizer | None) -> None:
        self.attached, self.captured = attached, GraphCache(attached, model)
        self.update = None if optimizer is None else CapturedUpdate(self.captured, optimizer)
        if self.update is not None:
            self._own_step = _replaced(self.update)
        attached.keep_schedules_on_device()
        self.packing = packing_of(attached.model, half) if can_pack(attached.states) else None

    def __call__(
        self, passes: Callable[[Any, Any], Tensor], inputs: Any, items: Any, last: bool, accumulate: int
    ) -> Tensor:
        if not self.captured.model.training:  # each pass sees to it, too late for the mode a graph is known by
            self.captured.model.train()
        real: int | None = inputs.get(COUNT)
        batch: dict[str, Any] = {name: value for name, value in inputs.items() if name != COUNT}
        tokens = tokens_to_compute(batch, real) if self.packing is not None else None

        def run(given: dict[str, Any]) -> Tensor:
            own = {name: value for name, value in given.items() if name != ITEMS}
            with nullcontext() if self.packing is None else self.packing.of(own, tokens):
                return passes(own, given[ITEMS])

        batch = {**without_idle_mask(batch, real), ITEMS: items}
        backward_passes, also = self.attached.backward_passes(last), (accumulate, tokens)
        obstacle = method_reason(self.attached.states, backward_passes, last)
        return self.captured(run, batch, last=last, several=len(backward_passes) > 1, also=also, obstacle=obstacle)

    def __str__(self) -> str:
        steps, why = self.captured.steps, self.captured.obstacle
        counted = f"{steps['captured']} of {sum(steps.values())} steps captured"
        return counted if why is None else f"{counted}; the others ran eagerly: {why}"

    def close(self) -> None:
        if self.update is not None:
            self.update.optimizer.step = self._own_step
        if self.packing is not None:
            self.packing.detach()
        self.captured.clear()


def _replaced(update: CapturedUpdate) -> Callable[..., Any]:
    """The optimizer's step gives way to the captured one; returns it, to be put back."""
    own = update.optimizer.step

    @wraps(own)  # with the marks a scheduler left on it
    def step(closure: Any = None) -> Any:
        return update.step(closure)

    update.optimizer.step = step
    return own
