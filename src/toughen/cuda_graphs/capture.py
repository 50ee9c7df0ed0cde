"""One captured step: what it is made of, how it is recorded, and what tells it from others."""

import gc
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..internal.architectures import is_compiled
from ..internal.rng import GraphSafeRng

Key: TypeAlias = tuple[Hashable, ...]


@dataclass(frozen=True)
class EagerTrace:
    """What is known of a step that was run: its random stream, and the weights that got a gradient."""

    tape: GraphSafeRng
    weights: Sequence[nn.Parameter]
    runs: int  # so many steps of this kind were run


@dataclass(frozen=True)
class Graph:
    """One captured step, with the memory it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    tape: GraphSafeRng
    inputs: dict[str, Any]
    loss: Tensor
    weights: Sequence[nn.Parameter]  # those that get a gradient
    last_batches: list[Any]

    def replay(self, batch: Mapping[str, Any]) -> Tensor:
        for name, value in batch.items():
            if isinstance(value, Tensor):
                self.inputs[name].copy_(value, non_blocking=True)
        with self.tape.replaying():
            self.graph.replay()
        return self.loss.clone()


@contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any = None, stream: Any = None) -> Generator[None]:
    """Record what a graph is to repeat; nothing is executed."""
    gc.collect(1)  # cycles of the last steps; all that Python holds would take as long as ten steps
    collecting = gc.isenabled()
    gc.disable()  # what it would free now are calls that no capture survives
    try:
        with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
            yield
    finally:
        if collecting:
            gc.enable()


@cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    """Return the stream all captures on a device are made on: cuBLAS keeps 64 MiB for each that it ever saw."""
    return torch.cuda.Stream(device)


def runs_before(model: nn.Module, compiled: bool) -> int:
    """Count the eager runs after which a step does nothing for the first time."""
    return 2 if compiled or is_compiled(model) else 1


def on_device(value: Any, device: torch.device, own: bool = False) -> Any:
    if not isinstance(value, Tensor):
        return value
    moved = value.to(device, non_blocking=True)
    return moved.clone() if own and moved is value else moved


def shape_of(batch: Mapping[str, Any]) -> Key:
    return tuple(
        (name, value.shape, value.dtype) if isinstance(value, Tensor) else (name, value)
        for name, value in sorted(batch.items())
    )


def state_of(model: nn.Module, weights: Sequence[nn.Parameter]) -> Key:
    """Return what a graph takes for granted: the mode, the precision, which weights are trained and where they lie."""
    precision = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    return (model.training, precision, *[(w.data_ptr(), w.requires_grad) for w in weights])
