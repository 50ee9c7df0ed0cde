"""torch.compile for the layers alone: one compilation serves them all, and hooks outside them stay as they are."""

from typing import Any, cast

from torch import nn

SMALL = 3_000_000  # weights of a layer: MiniLM's has 1.8 million, BERT-base's 7.1, where it costs more than it saves
MOST_SHAPES = 64  # as many as are captured; torch gives compiling up after eight, and goes on eagerly


def compile_layers(model: nn.Module, **options: Any) -> int:
    """Compile each layer of a model's stacks in place; returns how many. Shapes are fixed unless `dynamic` is given."""
    from torch._dynamo import config

    limits = cast(Any, config)
    limits.recompile_limit = max(int(limits.recompile_limit), MOST_SHAPES)
    layers = [layer for stack in model.modules() if isinstance(stack, nn.ModuleList) for layer in _alike(stack)]
    for layer in layers:
        layer.compile(**{"dynamic": False, **(_usual(layer) if not options else {}), **options})
    return len(layers)


def _usual(layer: nn.Module) -> dict[str, Any]:
    """Small kernels, such as half-precision copies of weights, as one launch, where launching is what takes time."""
    weights = list(layer.parameters())
    small = bool(weights) and weights[0].is_cuda and sum(weight.numel() for weight in weights) <= SMALL
    return {"options": {"combo_kernels": True}} if small else {}


def uncompile_layers(model: nn.Module) -> None:
    for module in model.modules():
        cast(Any, module)._compiled_call_impl = None


def _alike(stack: nn.ModuleList) -> list[nn.Module]:
    """The members of a stack of at least two modules of one class."""
    layers = list(stack)
    return layers if len(layers) > 1 and len({type(layer) for layer in layers}) == 1 else []
