"""Gradient checkpointing under a perturbation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from .perturbation import Injector, Perturbation


class CheckpointedLayers:
    """Makes checkpointed layers recompute as they were, perturbed or clean, whatever is current by then.

    Only sites inside the layers need it. Checkpointing may be switched on after `attach`, and off and on within a step
    (TRL), so `follow` looks again.
    """

    def __init__(self, model: nn.Module, injectors: Sequence[Injector]) -> None:
        self.layers = [m for m in model.modules() if hasattr(m, "gradient_checkpointing")]
        self.injectors = injectors

    def follow(self) -> None:
        for layer in self.layers:
            original = getattr(layer, "_gradient_checkpointing_func", None)
            if original is not None and not isinstance(original, _PerturbedCheckpoint):
                setattr(layer, "_gradient_checkpointing_func", _PerturbedCheckpoint(original, self.injectors))

    def release(self) -> None:
        for layer in self.layers:
            function = getattr(layer, "_gradient_checkpointing_func", None)
            if isinstance(function, _PerturbedCheckpoint):
                setattr(layer, "_gradient_checkpointing_func", function.original)


@dataclass(frozen=True)
class _PerturbedCheckpoint:
    """Wraps a checkpoint function so that recomputation sees the perturbation that was active in the forward pass."""

    original: Callable[..., Any]
    injectors: Sequence[Injector]

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        then = [(injector.current, injector.number) for injector in self.injectors]

        def recompute(*inner: Any, **named: Any) -> Any:
            now = [(injector.current, injector.number) for injector in self.injectors]
            self._set(then)
            try:
                return function(*inner, **named)
            finally:
                self._set(now)

        return self.original(recompute, *args, **kwargs)

    def _set(self, states: Sequence[tuple[Perturbation | None, int]]) -> None:
        for injector, state in zip(self.injectors, states, strict=True):
            injector.current, injector.number = state
