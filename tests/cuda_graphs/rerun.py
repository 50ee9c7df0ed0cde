"""Captured steps without CUDA: a graph that runs its step again, on inputs and into gradients that stay in place."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from toughen.cuda_graphs import graph_cache
from toughen.cuda_graphs.capture import on_device
from toughen.cuda_graphs.optimizer import GraphedCallable
from toughen.trainers import hf


@dataclass
class Rerun:
    """What `Graph` is to a GraphCache; dropout draws as in the eager step. Not for SAM, which asks CUDA."""

    run: Callable[[Any], Tensor]
    inputs: dict[str, Any]
    weights: list[nn.Parameter]
    buffers: list[Tensor]
    fresh: bool
    last_batches: list[Any]

    def replay(self, batch: Any) -> Tensor:
        for name, value in batch.items():
            if isinstance(value, Tensor):
                self.inputs[name].copy_(value)
        if self.fresh:
            for buffer in self.buffers:
                buffer.zero_()
        loss = self.run(self.inputs)
        assert all(w.grad is b for w, b in zip(self.weights, self.buffers, strict=True))
        return loss


class Tape:
    def __init__(self, _device: Any) -> None:
        pass

    @contextlib.contextmanager
    def recording(self) -> Generator[None]:
        yield


def capture(self: Any, run: Any, batch: Any, trace: Any, device: Any, fresh: bool, multiple_backwards: bool) -> Rerun:
    inputs = {name: on_device(value, device, own=True) for name, value in batch.items()}
    for weight in trace.weights:
        self.grad_buffers.setdefault(weight, torch.zeros_like(weight))
    buffers = [self.grad_buffers[weight] for weight in trace.weights]
    return Rerun(run, inputs, trace.weights, buffers, fresh, self.attached.last_batches)


@contextlib.contextmanager
def rerun_graphs() -> Generator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_cache.GraphCache, "_capture", capture)
        patch.setattr(GraphedCallable, "__call__", lambda _self, _key, act, _ready=None: act())
        patch.setattr(graph_cache, "GraphSafeRng", Tape)
        patch.setattr(graph_cache, "model_reason", lambda *_: None)
        patch.setattr(hf, "model_reason", lambda *_: None)
        patch.setattr(hf, "CAPTURING_DEVICES", ("cpu",))
        yield patch
