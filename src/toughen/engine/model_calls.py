"""What happens at each call of the model: a loss may call it several times in one pass."""

import inspect
from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..sites.base import Detach
from .checkpointing import CheckpointedLayers
from .perturbation import Injector

_TEXT = ("input_ids", "attention_mask", "token_type_ids", "special_tokens_mask")
_CLAMPED_IN_PLACE = ("start_positions", "end_positions")


def _input_of(given: Any) -> Tensor | None:
    """Return the tensor by which an input is known again."""
    if isinstance(given, Mapping):
        named = cast("Mapping[str, Any]", given)
        values = [named.get("input_ids"), *named.values()]
        return next((value for value in values if isinstance(value, Tensor)), None)
    return given if isinstance(given, Tensor) else None


def watch_calls(model: nn.Module, injectors: Sequence[Injector], checkpoints: CheckpointedLayers | None) -> Detach:
    """Leave a reference's pass clean, follow recomputed layers, and keep a batch's labels as they are.

    Each input of a pass gets a perturbation of its own, as of losses that call the model on anchors and on positives.
    Masks are made of the text that the model is given, which a Trainer's batch may hold under other names. A call
    without gradients in a pass with them is a reference: DPO takes one from the model without its adapter. The heads of
    some models clamp the positions of answers in place, and the cross entropy of an earlier pass needs them.
    """

    def enter(called: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if called is not model:  # a copy of the model has its hooks, too
            return None
        if checkpoints is not None and not torch.compiler.is_compiling():
            checkpoints.follow()
        if not torch.is_grad_enabled():
            suspend([one for one in injectors if one.current is not None and one.with_gradients])
        if not torch.compiler.is_compiling():
            given = kwargs if kwargs else args[0] if args else None
            for injector in injectors:
                if injector.active:
                    injector.enter_call(_input_of(given))
            show_text(given)
        labels = {name: kwargs[name] for name in _CLAMPED_IN_PLACE if isinstance(kwargs.get(name), Tensor)}
        return (args, {**kwargs, **{name: value.clone() for name, value in labels.items()}}) if labels else None

    def show_text(given: Any) -> None:
        """Let masks be made from what the model is given; a model of stages takes its batch in one argument."""
        if not isinstance(given, Mapping) or "input_ids" not in given:
            return
        text = {name: value for name, value in cast("Mapping[str, Any]", given).items() if name in _TEXT}
        for injector in injectors:
            if injector.active and injector.batch.get("input_ids") is not text["input_ids"]:
                injector.set_batch({**injector.batch, **text})

    def suspend(perturbed: Sequence[Injector]) -> None:
        """Leave this call of the model clean."""
        current = [injector.current for injector in perturbed]

        def resume(*_: Any) -> None:
            handle.remove()
            for injector, perturbation in zip(perturbed, current, strict=True):
                injector.current = perturbation

        if perturbed:
            handle = model.register_forward_hook(resume, always_call=True)
            for injector in perturbed:
                injector.current = None

    return model.register_forward_pre_hook(enter, with_kwargs=True).remove


def remember_signatures(model: nn.Module) -> Detach:
    """Let each layer's feed-forward function keep its signature, which transformers reads again in every pass.

    `apply_chunking_to_forward` does so to count arguments. That took 3 % of an update of a small model.
    """
    layers = [layer for layer in model.modules() if hasattr(type(layer), "feed_forward_chunk")]

    def remember(function: Any) -> Any:
        def chunk(layer: nn.Module, *inputs: Tensor) -> Any:
            return function(layer, *inputs)

        setattr(chunk, "__signature__", inspect.signature(function))
        return chunk

    kept = {type(layer): remember(cast(Any, type(layer)).feed_forward_chunk) for layer in layers}
    for layer in layers:
        setattr(layer, "feed_forward_chunk", MethodType(kept[type(layer)], layer))

    def forget() -> None:
        for layer in layers:
            delattr(layer, "feed_forward_chunk")

    return forget
