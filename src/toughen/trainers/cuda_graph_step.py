"""The Trainer's steps as CUDA graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..cuda_graphs.packing import real_tokens
from ..cuda_graphs.step import CapturedPasses
from ..engine.attached import Attached
from .view_collator import CollatorAround

COUNT = "toughen_real_tokens"
ITEMS = "toughen_items"  # the number of labels in an update travels with the batch


class CapturedTraining(CapturedPasses):
    """One micro-batch at a time through `passes(inputs, items)`, and the optimizer's own step, captured if possible."""

    def __init__(
        self, attached: Attached, model: nn.Module, half: torch.dtype | None, optimizer: Optimizer | None
    ) -> None:
        super().__init__(attached, model, optimizer)
        if self.update is not None:
            own, captured = self.update.optimizer.step, self.update.step

            @wraps(own)  # with the marks a scheduler left on it
            def step(closure: Any = None) -> Any:
                return captured(closure)

            self._own_step, self.update.optimizer.step = own, step
        attached.keep_schedules_on_device()
        self.set_precision(half)

    def __call__(
        self, passes: Callable[[Any, Any], Tensor], inputs: Any, items: Any, last: bool, accumulate: int
    ) -> Tensor:
        if not self.captured.model.training:  # each pass sees to it, too late for the mode a graph is known by
            self.captured.model.train()

        def run(given: dict[str, Any]) -> Tensor:
            return passes({name: value for name, value in given.items() if name != ITEMS}, given[ITEMS])

        batch = {name: value for name, value in inputs.items() if name != COUNT}
        return self.run(run, batch, inputs.get(COUNT), last=last, extra_key=(accumulate,), **{ITEMS: items})

    def __str__(self) -> str:
        steps, why = self.captured.steps, self.captured.obstacle
        counted = f"{steps['captured']} of {sum(steps.values())} steps captured"
        return counted if why is None else f"{counted}; the others ran eagerly: {why}"

    def close(self) -> None:
        if self.update is not None:
            self.update.optimizer.step = self._own_step
        super().close()


@dataclass(frozen=True)
class TokenCountCollator(CollatorAround):
    """Counts the real tokens of a batch on the CPU, so that a captured step can leave padding out."""

    collate: Callable[[Any], dict[str, Any]]
    pad: int | None = None  # the token that stands for padding

    def __call__(self, rows: Any) -> dict[str, Any]:
        batch = self.collate(rows)
        return {**batch, COUNT: real_tokens(batch, self.pad)}
