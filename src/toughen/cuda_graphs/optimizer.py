"""Clipping and the optimizer's step as CUDA graphs: at MiniLM's size launching them takes longer than the step."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from .capture import Key, recording
from .graph_cache import GraphCache

MOST_GRAPHS = 8
# A graph holds these for ever; the learning rate it reads from a tensor.
BAKED_OPTIONS = ("betas", "eps", "weight_decay", "amsgrad", "maximize")


class GraphedCallable:
    """An act on the same memory each time, from the second time on a CUDA graph.

    The key tells acts apart; without one, or where the act cannot be captured, it runs as it is.
    """

    def __init__(self) -> None:
        self.captured = True
        self._seen: set[Key] = set()
        self._graphs: dict[Key, tuple[torch.cuda.CUDAGraph, Tensor | None]] = {}

    def __call__(
        self,
        key: Key | None,
        act: Callable[[], Tensor | None],
        ready: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Tensor | None:
        """`ready` is round the capture alone."""
        if key is None or not self.captured:
            return act()
        if key not in self._graphs:
            if key not in self._seen or len(self._graphs) >= MOST_GRAPHS:
                self._seen.add(key)
                return act()
            graph = torch.cuda.CUDAGraph()
            try:
                with ready(), recording(graph):
                    result = act()
            except RuntimeError:  # it is a matter of speed alone
                self.captured = False
                return act()
            self._graphs[key] = graph, result
        graph, result = self._graphs[key]
        graph.replay()
        return None if result is None else result.clone()


class CapturedUpdate:
    """The update after a step: gradients are clipped, weights moved. A part of a captured step, or two graphs.

    It is captured with torch's fused Adam and AdamW, where no GradScaler and no hook has a word in it, and runs as it
    is otherwise. Learning rates may change from step to step, as numbers or as tensors.

    Args:
        captured: The steps that make the gradients.
        optimizer: The optimizer, with the weights of the model.

    Examples:
        >>> attached = toughen.smart().attach(model, tokenizer)
        >>> graphs = toughen.cuda_graphs.GraphCache(attached, model)
        >>> update = toughen.cuda_graphs.CapturedUpdate(graphs, optimizer)
    """

    def __init__(self, captured: GraphCache, optimizer: Optimizer) -> None:
        self.grad_buffers: Mapping[Any, Tensor] = captured.grad_buffers
        self.optimizer, self._step = optimizer, optimizer.step
        self._clips, self._steps = GraphedCallable(), GraphedCallable()
        self._rates: list[Tensor] = []
        self._filled: list[float] = []
        self._states: list[Any] = []

    def in_graph_key(self) -> Key | None:
        """Return what a captured step with the update in it takes for granted, None if the update must stay outside.

        Gradients are then made, used up and forgotten in the graph, which saves handing them out.
        """
        key = self._settings()
        if key is None or any(weight.grad is not None for weight in self.weights):
            return None
        self._fill()
        return key

    def step_in_graph(self, max_norm: float | None) -> None:
        """Update as a part of a step that is run or captured."""
        capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        with self._reading_rates() if capturing else nullcontext():
            if capturing and any(weight.grad is not None and weight not in self._state for weight in self.weights):
                raise RuntimeError("a weight got its first gradient")
            with nullcontext() if max_norm is None else self._scaled(max_norm):
                self._step()
        self.optimizer.zero_grad(set_to_none=True)

    @contextmanager
    def _scaled(self, max_norm: float) -> Generator[None]:
        """Clip as the fused optimizer's own division of gradients, which saves a walk over them."""
        optimizer: Any = self.optimizer
        norm = nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        optimizer.grad_scale = ((norm.float() + 1e-6) / max_norm).clamp(min=1)
        try:
            yield
        finally:
            del optimizer.grad_scale

    def step_after(self, max_norm: float | None) -> None:
        """Update after a step."""
        if max_norm is not None:
            self.clip(self.weights, max_norm)
        self.step()
        self.optimizer.zero_grad(set_to_none=True)

    def clip(self, weights: Iterable[Tensor], max_norm: float, act: Callable[[], Any] | None = None) -> Any:
        """Clip gradients to a norm and return the norm they had; `act` does it, or else `clip_grad_norm_`."""
        own = list(weights)
        return self._clips(self._places(own, (max_norm,)), act or (lambda: nn.utils.clip_grad_norm_(own, max_norm)))

    def step(self, closure: Any = None) -> Any:
        if closure is not None:
            return self._step(closure)
        key = self._places(self.weights, self._settings())
        if key is not None:
            self._fill()
        return self._steps(key, self._step, self._reading_rates)

    @property
    def weights(self) -> list[Tensor]:
        return [weight for group in self.optimizer.param_groups for weight in group["params"]]

    @property
    def _state(self) -> Any:
        return self.optimizer.state

    def _places(self, weights: Iterable[Tensor], extra_key: Key | None) -> Key | None:
        """Return the addresses of weights and gradients, None if they may change until the next time."""
        if extra_key is None:
            return None
        buffers_of, places = self.grad_buffers, list(extra_key)
        for weight in weights:
            grad = weight.grad
            if grad is None:
                continue
            if grad is not buffers_of.get(weight):
                return None
            places += (weight.data_ptr(), grad.data_ptr())
        return tuple(places) if len(places) > len(extra_key) else None

    def _settings(self) -> Key | None:
        """Return what a graph of the optimizer's step holds for ever, None if there cannot be one."""
        optimizer: Any = self.optimizer
        groups = optimizer.param_groups
        if type(optimizer) not in (Adam, AdamW) or not all(g["fused"] and not g["differentiable"] for g in groups):
            return None
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            return None
        if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
            return None
        if not self._states or self._states[-1] is not optimizer.state:
            self._states.append(optimizer.state)  # a loaded one lies in other memory; kept, for graphs write to it
        held = [group[name] for group in groups for name in BAKED_OPTIONS]
        rates = [group["lr"].data_ptr() if _on_device(group["lr"]) else None for group in groups]
        return (len(self._states), len(self.weights), *held, *rates)

    def _fill(self) -> None:
        """Write the learning rates of this step where the graph reads them."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if len(self._rates) != len(rates):
            device = self.optimizer.param_groups[0]["params"][0].device
            self._rates = [torch.zeros((), device=device) for _ in rates]
            self._filled = [0.0 for _ in rates]
        for i, rate in enumerate(rates):
            if not _on_device(rate) and float(rate) != self._filled[i]:
                self._rates[i].fill_(float(rate))
                self._filled[i] = float(rate)

    @contextmanager
    def _reading_rates(self) -> Generator[None]:
        """Turn rates into tensors for the capture; the user and schedulers see numbers before and after."""
        groups = self.optimizer.param_groups
        before = [(group["lr"], group["capturable"]) for group in groups]
        for group, rate in zip(groups, self._rates, strict=True):
            group["lr"] = group["lr"] if _on_device(group["lr"]) else rate
            group["capturable"] = True
        try:
            yield
        finally:
            for group, (rate, capturable) in zip(groups, before, strict=True):
                group["lr"], group["capturable"] = rate, capturable


def _on_device(rate: Any) -> bool:
    return isinstance(rate, Tensor) and rate.device.type != "cpu"
