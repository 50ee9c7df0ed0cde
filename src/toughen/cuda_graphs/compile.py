"""torch.compile for the layers alone: one compilation serves them all, and hooks outside them stay as they are."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

from torch import nn

SMALL = 3_000_000  # weights of a layer: MiniLM's has 1.8 million, BERT-base's 7.1, where it costs more than it saves
MOST_SHAPES = 64  # as many as are captured; torch gives compiling up after eight, and goes on eagerly
_BEFORE = "_toughen_before"  # what a layer had; kept with what it has, which neither copies nor files take along


def compile_layers(model: nn.Module, *, memory_budget: float | None = None, **options: Any) -> int:
    """Compile each layer of a model's stacks in place; returns how many. Shapes are fixed unless `dynamic` is given.

    `memory_budget`, 0.9 say, is the share of the usual activations that may be kept for the backward pass; what is
    cheap to compute again is, GELU first. It holds for all that torch compiles from then on. Other options are those
    of torch.compile.

    Args:
        model: The model.
        memory_budget: The share of the usual activations that may be kept for the backward pass.
        **options: Of torch.compile.

    Returns:
        The number of layers.

    Examples:
        >>> number = toughen.cuda_graphs.compile_layers(model, memory_budget=0.9)  # doctest: +SKIP
    """
    from torch._dynamo import config
    from torch._functorch import config as partition

    if memory_budget is not None:
        if not 0 < memory_budget <= 1:
            raise ValueError(
                f"memory_budget={memory_budget}: the share of activations to keep lies above 0 and is at most 1."
            )
        cast(Any, partition).activation_memory_budget = memory_budget
    limits = cast(Any, config)
    limits.recompile_limit = max(int(limits.recompile_limit), MOST_SHAPES)
    layers: list[Any] = [
        layer for stack in model.modules() if isinstance(stack, nn.ModuleList) for layer in _alike(stack)
    ]
    for layer in layers:
        before = layer._compiled_call_impl
        layer.compile(**{"dynamic": False, **(_usual(layer) if not options else {}), **options})
        with suppress(AttributeError):  # where compiling is switched off this is a bare method
            setattr(layer._compiled_call_impl, _BEFORE, getattr(before, _BEFORE, before))
    return len(layers)


def _usual(layer: nn.Module) -> dict[str, Any]:
    """Small kernels, such as half-precision copies of weights, as one launch, where launching is what takes time."""
    weights = list(layer.parameters())
    small = bool(weights) and weights[0].is_cuda and sum(weight.numel() for weight in weights) <= SMALL
    return {"options": {"combo_kernels": True}} if small else {}


def uncompile_layers(model: nn.Module) -> None:
    """Restore each layer as it was before `compile_layers`; what somebody else compiled stays compiled.

    Args:
        model: The model.

    Examples:
        >>> toughen.cuda_graphs.uncompile_layers(model)
    """
    modules: list[Any] = list(model.modules())
    for module in modules:
        if hasattr(module._compiled_call_impl, _BEFORE):
            module._compiled_call_impl = getattr(module._compiled_call_impl, _BEFORE)


class CompiledLayers:
    """Layers of a model that are compiled in a block and as they were outside: an evaluation compiles nothing.

    What the compiler cannot do runs as it is.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        modules: list[Any] = list(model.modules())
        before = [module._compiled_call_impl for module in modules]
        compile_layers(model, **options)
        changed = zip(modules, before, strict=True)
        self._calls = [(vars(m), was, m._compiled_call_impl) for m, was in changed if m._compiled_call_impl is not was]
        self._switch(False)

    @contextmanager
    def active(self) -> Generator[None]:
        from torch._dynamo import config

        self._switch(True)
        try:
            with cast(Any, config).patch(suppress_errors=True):
                yield
        finally:
            self._switch(False)

    def _switch(self, on: bool) -> None:
        for module, before, compiled in self._calls:
            module["_compiled_call_impl"] = compiled if on else before


def compiler_reason() -> str | None:
    """Return why torch.compile can make no kernels here, or None."""
    from torch.utils._triton import has_triton

    if not has_triton():
        return "Triton is not installed"
    compilers = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return None if any(map(shutil.which, compilers)) else "there is no C compiler"


def _alike(stack: nn.ModuleList) -> list[nn.Module]:
    """Return the members of a stack of at least two modules of one class."""
    layers = list(stack)
    return layers if len(layers) > 1 and len({type(layer) for layer in layers}) == 1 else []
