"""The loop of every driver: back-propagate each loss before the next one is asked for."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch
from torch import Tensor

from ..combine.base import BackwardPass


def run_backward_passes(
    losses: Generator[Tensor],
    backward_passes: Sequence[BackwardPass],
    backward: Callable[[BackwardPass], Tensor],
    *,
    quiet: Callable[[], AbstractContextManager[Any]],
    step: Callable[[], Any] | None = None,
) -> Tensor | None:
    """The sum of the losses that count, detached. `backward` takes the next one and returns it as it propagated it."""
    total: list[Tensor] = []
    with closing(losses):  # also after an error: weights moved by SAM go back at once
        for turn in backward_passes:
            with nullcontext() if turn.sync else quiet():
                loss = backward(turn)
            if turn.kept:
                total.append(loss.detach())
            if turn.step and step is not None:
                step()
                torch.clear_autocast_cache()  # its half-precision copies are of the weights before the step
        next(losses, None)  # runs what stands after the last yield
    return torch.stack(total).sum() if total else None
