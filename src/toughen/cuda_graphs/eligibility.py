"""Why a step cannot be a CUDA graph, or must keep its padding; known before it is tried."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import nn

from ..combine.base import BackwardPass
from ..engine.state import MethodState
from ..needs import declared

LIBRARIES = (
    "transformers",
    "torch",
    "accelerate",
    "peft",
    "toughen",
)  # whose code in a step has no effect but its tensors
CHECKPOINTING = "gradient checkpointing sets random states in the backward pass; switch it off, memory allowing"
ALL_THE_SAME = "fast=True captures it all the same"


def model_reason(model: nn.Module, device: torch.device) -> str | None:
    """Return why no step of this model can be a CUDA graph, or None."""
    if device.type != "cuda":
        return f"the model is on the {device.type}, and CUDA graphs need a CUDA device"
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, nn.parallel.DistributedDataParallel) or hasattr(inner, "set_requires_gradient_sync"):
        return f"{type(inner).__name__} exchanges gradients between processes in the middle of the step"
    if any(weight.device != device for weight in model.parameters()):
        return "the model lies on several devices"
    if model.training and any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        return CHECKPOINTING
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


def memory_reason(device: torch.device) -> str | None:
    """Return why a graph beside eager steps might not fit, or None: each keeps a step's activations."""
    if device.type != "cuda":
        return None
    peak, now = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    room = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    if 2 * peak - now <= 0.95 * room:
        return None
    more, left = (peak - now) / 2**30, max(room - peak, 0) / 2**30
    return f"a graph needs up to {more:.1f} GiB beside what eager steps take, and {left:.1f} are left"


def code_reason(model: nn.Module) -> str | None:
    """Return which Python in the model a replay would not run, or None; ask before a method puts its hooks in."""
    for name, module in model.named_modules():
        own: Any = module
        hooks = (own._forward_hooks, own._forward_pre_hooks, own._backward_hooks, own._backward_pre_hooks)
        if any(_foreign(hook) for some in hooks for hook in some.values()):
            return f"a replay does not run the hook on {name or type(module).__name__}; {ALL_THE_SAME}"
        if reason := class_reason(type(module).__mro__, ["forward"]):
            return reason
    return None


def part_reason(part: Any) -> str | None:
    """Return which function or class of the user's a method is made of, or None."""
    if (callable(part) or is_dataclass(part)) and _foreign(part):
        return (
            f"a replay does not run the Python of {getattr(part, '__qualname__', type(part).__name__)}; {ALL_THE_SAME}"
        )
    inner = [getattr(part, each.name) for each in fields(part)] if is_dataclass(part) else []
    return next(filter(None, map(part_reason, inner)), None)


def class_reason(classes: Sequence[type], names: Sequence[str]) -> str | None:
    """Return which of these methods a replay would not run, as it is neither transformers' nor torch's, or None."""
    for kind in classes:
        own = [name for name in names if name in vars(kind)]
        if own and _foreign(kind):
            return f"a replay does not run the Python of {kind.__name__}.{own[0]}; {ALL_THE_SAME}"
    return None


def _foreign(code: Any) -> bool:
    return str(getattr(code, "__module__", "")).partition(".")[0] not in LIBRARIES


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
