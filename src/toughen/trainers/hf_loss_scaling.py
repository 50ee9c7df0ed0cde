"""What a Trainer's own loss is: over what it is divided, and whether its outputs can be trained through."""

import dis
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Trainer

from ..compare.model_outputs import field
from ..internal.architectures import HeadType, unwrap_peft
from ..internal.rng import RngSnapshot
from ..method import Method, MethodSum


def compares_predictions(method: Method | MethodSum) -> bool:
    """Whether predictions are compared, or losses alone: some Trainers make an extra pass for their outputs."""
    methods = method.methods if isinstance(method, MethodSum) else (method,)
    return any(one.needs("needs_predictions") for one in methods)


def divides_by_items(model: nn.Module, task: HeadType) -> bool:
    """Whether a head's loss is divided by the `num_items_in_batch` it is given.

    Only those language models do that use transformers' `loss_function`; T5's, BART's and all other heads take the
    argument and leave it.
    """
    if task not in ("causal_lm", "seq2seq_lm", "masked_lm"):
        return False
    kinds = type(unwrap_peft(model)).__mro__
    own = [vars(kind)["forward"] for kind in kinds if "forward" in vars(kind)]
    codes = [getattr(inspect.unwrap(function), "__code__", None) for function in own]
    return any("loss_function" in code.co_names for code in codes if code is not None)


def trainer_scales_loss(trainer: Trainer, above: type[Trainer]) -> bool:
    """Whether a Trainer divides by the number of labels itself: it smooths them, its class says so, or a `compute_loss`
    of the user's, under `above`, names `num_items_in_batch` and leaves the loss to no other.
    """
    if trainer.label_smoother is not None or getattr(trainer, "loss_is_scaled_for_ga", None):
        return True
    kinds = type(trainer).__mro__
    given = [vars(kind).get("compute_loss") for kind in kinds[kinds.index(above) + 1 : kinds.index(Trainer)]]
    codes = [getattr(inspect.unwrap(function), "__code__", None) for function in given if function is not None]
    own = next((code for code in codes if code is not None and "compute_loss" not in code.co_names), None)
    if own is None:
        return False
    named = [step.argval if isinstance(step.argval, tuple) else (step.argval,) for step in dis.get_instructions(own)]
    return any("num_items_in_batch" in names for names in named)


def replayable_forward(model: nn.Module, inputs: Mapping[str, Any], device: torch.device) -> Callable[[], Any]:
    """The pass that comes next, once more: under the same dropout mask, and to be trained through.

    TRL's SFTTrainer computes its loss without logits, and gives them from a pass without gradients.
    """
    before = RngSnapshot(device)

    def again() -> Any:
        after = RngSnapshot(device)
        before.restore()
        outputs = model(**{key: value for key, value in inputs.items() if key != "labels"}, use_cache=False)
        after.restore()
        return outputs

    return again


def logits_of(outputs: Any) -> Tensor:
    """Any of the outputs' scores: it is only asked for its graph."""
    if isinstance(outputs, Mapping):
        return field(cast("Mapping[str, Any]", outputs), "logits", "start_logits")
    return outputs if isinstance(outputs, Tensor) else _without_loss(outputs)[0]


def with_loss(outputs: Any, loss: Tensor) -> Any:
    """The model's output with the loss the Trainer made of it. A loss of the user's may give the scores alone."""
    if isinstance(outputs, Tensor):
        return loss, outputs
    if isinstance(outputs, dict):
        return {**cast("dict[str, Any]", outputs), "loss": loss}
    return loss, *_without_loss(outputs)


def _without_loss(outputs: "tuple[Tensor, ...]") -> "tuple[Tensor, ...]":
    """A tuple of a model (`return_dict=False`) starts with its loss, unless the labels were kept from it."""
    return outputs[1:] if outputs[0].dim() == 0 else outputs
