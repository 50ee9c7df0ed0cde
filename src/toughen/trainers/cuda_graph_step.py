"""The Trainer's steps as CUDA graphs."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..cuda_graphs.compile import compiler_reason
from ..cuda_graphs.eligibility import memory_reason
from ..cuda_graphs.estimate import capture_pays, compile_seconds
from ..cuda_graphs.packing import real_tokens
from ..cuda_graphs.step import CapturedPasses
from ..engine.attached import Attached
from ..internal.architectures import is_compiled
from .view_collator import CollatorAround

COUNT = "toughen_real_tokens"
ITEMS = "toughen_items"  # the number of labels in an update travels with the batch


LENGTHS = 32  # texts are padded to multiples of it, so that shapes repeat
COMPILE_AFTER = 50  # steps: by then most shapes have come


class CapturedTraining(CapturedPasses):
    """One micro-batch at a time through `passes(inputs, items)`, and the optimizer's own step, captured if possible.

    With `tell` a step is captured where it pays within the training and leaves the memory that eager steps need, and
    what is said goes there; without, every shape is captured, and a warning says what cannot be.
    """

    def __init__(
        self,
        attached: Attached,
        model: nn.Module,
        half: torch.dtype | None,
        optimizer: Optimizer | None,
        tell: Callable[[str], None] | None = None,
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
        self._tell, self._left, self._tokens = tell, 0, 0
        if tell is not None:
            self.captured.warn, self.captured.pays = tell, self._pays

    def __call__(
        self,
        passes: Callable[[Any, Any], Tensor],
        inputs: Any,
        items: Any,
        last: bool,
        accumulate: int,
        left: int,
    ) -> Tensor:
        """Run one micro-batch; `left` are those still to come, this one included."""
        if not self.captured.model.training:  # each pass sees to it, too late for the mode a graph is known by
            self.captured.model.train()
        self._left = left

        def run(given: dict[str, Any]) -> Tensor:
            return passes({name: value for name, value in given.items() if name != ITEMS}, given[ITEMS])

        batch = {name: value for name, value in inputs.items() if name != COUNT}
        loss = self.run(run, batch, inputs.get(COUNT), last=last, extra_key=(accumulate,), **{ITEMS: items})
        self._tokens += self.tokens
        if self.done == COMPILE_AFTER and self._tell is not None and self.captured.captures:
            self._compile_if_it_pays(self._tell)
        return loss

    @property
    def done(self) -> int:
        return sum(self.captured.steps.values())

    def _pays(self, seen: int) -> bool:
        if not capture_pays(seen, self.done, self._left):
            return False
        self.captured.fall_back(memory_reason(next(self.model.parameters()).device))
        return self.captured.obstacle is None

    def _compile_if_it_pays(self, tell: Callable[[str], None]) -> None:
        config: Any = getattr(self.attached.model, "config", None)
        width, layers = (getattr(config, name, 0) or 0 for name in ("hidden_size", "num_hidden_layers"))
        counts = self.attached.last_batches[0].passes.counts
        passes = (counts.forwards + 2 * counts.backwards) / 3
        values = self._tokens / self.done * width * layers
        saved, taken = compile_seconds(values, passes, self._left, self.captured.shapes)
        if saved <= taken or is_compiled(self.model):
            return
        estimate = f"takes about {taken:.0f} s and saves {saved:.0f} in {self._left} steps"
        if (reason := compiler_reason()) is not None:
            tell(f"Layers are not compiled, which {estimate}: {reason}.")
            return
        tell(f"Layers are compiled, which {estimate}.")
        self.compile()

    def __str__(self) -> str:
        steps, why = self.captured.steps, self.captured.obstacle
        counted = f"{steps['captured']} of {sum(steps.values())} steps captured"
        counted += "" if self.layers is None else ", layers compiled"
        return counted if why is None or self._tell is not None else f"{counted}; the others ran eagerly: {why}"

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


def pad_to_few_lengths(collate: Any, model: nn.Module) -> Any:
    """Return a collator that pads to multiples of `LENGTHS`, if it has that setting and the setting is left open."""
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if positions is not None and positions % LENGTHS not in (0, 2):  # RoBERTa's first two are no text's
        return collate
    longest = getattr(collate, "padding", True) in (True, "longest") and not getattr(collate, "edges", ())
    if not is_dataclass(collate) or not longest or getattr(collate, "pad_to_multiple_of", LENGTHS) is not None:
        return collate
    return replace(cast(Any, collate), pad_to_multiple_of=LENGTHS)
