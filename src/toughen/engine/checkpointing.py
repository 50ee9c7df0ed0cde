"""Gradient checkpointing under a perturbation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from .perturbation import Injector, Perturbation


class CheckpointedLayers:
    """Makes checkpointed layers recompute as they were, perturbed or clean, whatever is current by then.

    Only sites inside the layers need it. Checkpointing may be switched on after `attach`, so `follow` looks again.
    """

    def __init__(self, model: nn.Module, injectors: Sequence[Injector]) -> None:
        self.layers = [m for m in model.modules() if hasattr(m, "gradient_checkpointing")]
        self.injectors = injectors

    def follow(self) -> None:
        for layer in self.layers:
            original = getattr(layer, "_gradient_checkpointing_func", None)
            if original is not None and not isinstance(original, _Remembering):
                setattr(layer, "_gradient_checkpointing_func", _Remembering(original, self.injectors))

    def release(self) -> None:
        for layer in self.layers:
            function = getattr(layer, "_gradient_checkpointing_func", None)
            if isinstance(function, _Remembering):
                setattr(layer, "_gradient_checkpointing_func", function.original)


@dataclass(frozen=True)
class _Remembering:
    """A checkpoint function that runs what it is given under the perturbations of the time it was given it."""

    original: Callable[..., Any]
    injectors: Sequence[Injector]

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        then = [injector.current for injector in self.injectors]

        def as_it_was(*inner: Any, **named: Any) -> Any:
            now = [injector.current for injector in self.injectors]
            self._set(then)
            try:
                return function(*inner, **named)
            finally:
                self._set(now)

        return self.original(as_it_was, *args, **kwargs)

    def _set(self, currents: Sequence[Perturbation | None]) -> None:
        for injector, current in zip(self.injectors, currents, strict=True):
            injector.current = current
