"""Why a step cannot be a CUDA graph, or must keep its padding; known before it is tried."""

from collections.abc import Sequence

import torch
from torch import nn

from ..combine.base import BackwardPass
from ..engine.state import MethodState
from ..needs import declared


def model_reason(model: nn.Module, device: torch.device) -> str | None:
    """Return why no step of this model can be a CUDA graph, or None."""
    if device.type != "cuda":
        return f"the model is on the {device.type}, and CUDA graphs need a CUDA device"
    if isinstance(model, nn.parallel.DistributedDataParallel) or hasattr(model, "set_requires_gradient_sync"):
        return f"{type(model).__name__} exchanges gradients between processes in the middle of the step"
    if any(weight.device != device for weight in model.parameters()):
        return "the model lies on several devices"
    if model.training and any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        return "gradient checkpointing sets random states in the backward pass; switch it off, memory allowing"
    return None


def method_reason(
    states: Sequence[MethodState], backward_passes: Sequence[BackwardPass], last: bool, updates: bool = False
) -> str | None:
    """Return why the coming micro-batch cannot be a CUDA graph, or None; `updates` are captured with it or not."""
    if any(each.optimizer_step for each in backward_passes) and not updates:
        return "the method updates the weights between its passes (FreeAT), with an optimizer that is not captured"
    num_rounds = declared(states[0].method.combine, "num_rounds")
    if num_rounds > 1 and (not last or len(backward_passes) > num_rounds):
        return (
            "the method goes over all micro-batches of an update again (SAM, AWP, FreeAT); train without accumulation"
        )
    return None


def can_pack(states: Sequence[MethodState]) -> bool:
    """Tell whether padding may be left out of the layers: nothing in there is perturbed.

    Features are what the layers give, padded again. A view of the texts has other padding than the batch whose tokens
    were counted.
    """
    return not any(declared(one.method.site, "inside_layers") or one.view_maker is not None for one in states)


def weights_stay(states: Sequence[MethodState]) -> bool:
    """Tell whether all passes of a micro-batch see the same weights.

    Methods of several rounds move or update them in between, and a teacher's take their place.
    """
    return not any(declared(one.method.combine, "num_rounds") > 1 or one.method.reference is not None for one in states)


def error_reason(error: BaseException) -> str:
    """Return the first of a chain of errors: what broke the capture, and not that it is broken."""
    while error.__context__ is not None:
        error = error.__context__
    if "legacy stream" in str(error):
        return "the graph of an earlier forward pass is alive: detach the losses and outputs you keep (loss.detach())"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
