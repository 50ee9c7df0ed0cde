"""What happens at each call of the model: a loss may call it several times in one pass."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..sites.base import Detach
from .checkpointing import CheckpointedLayers
from .perturbation import Injector

_CLAMPED_IN_PLACE = ("start_positions", "end_positions")


def watch_calls(model: nn.Module, injectors: Sequence[Injector], checkpoints: CheckpointedLayers | None) -> Detach:
    """Leave a reference's pass clean, follow layers that are checkpointed anew, and keep a batch's labels as they are.

    A call without gradients in a pass with them is a reference: DPO takes one from the model without its adapter. The
    heads of some models clamp the positions of answers in place, and the cross entropy of an earlier pass needs them.
    """

    def enter(called: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if called is not model:  # a copy of the model has its hooks, too
            return None
        if checkpoints is not None and not torch.compiler.is_compiling():
            checkpoints.follow()
        if not torch.is_grad_enabled():
            suspend([one for one in injectors if one.current is not None and one.with_gradients])
        labels = {name: kwargs[name] for name in _CLAMPED_IN_PLACE if isinstance(kwargs.get(name), Tensor)}
        return (args, {**kwargs, **{name: value.clone() for name, value in labels.items()}}) if labels else None

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
