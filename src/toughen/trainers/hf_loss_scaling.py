"""What a Trainer's own loss is: over what it is divided, and whether its outputs can be trained through."""

import dis
import inspect
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Trainer

from ..compare.model_outputs import field
from ..internal.architectures import HeadType, unwrap_peft
from ..internal.rng import RngSnapshot
from ..method import Method, MethodSum


def compares_predictions(method: Method | MethodSum) -> bool:
    """Tell whether predictions are compared, or losses alone: some Trainers make an extra pass for their outputs."""
    methods = method.methods if isinstance(method, MethodSum) else (method,)
    return any(one.needs("needs_predictions") for one in methods)


def divides_by_items(model: nn.Module, task: HeadType) -> bool:
    """Tell whether a head's loss is divided by the `num_items_in_batch` it is given.

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
    """Tell whether a Trainer divides by the number of labels itself.

    It does if it smooths them, if its class declares it, or if a `compute_loss` of the user's, under `above`, uses
    `num_items_in_batch` and leaves the loss to no other.
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
    """Return a function that repeats the coming pass under the same dropout mask, with gradients.

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
    """Return any of the outputs' scores; only its graph is asked for."""
    if isinstance(outputs, Mapping):
        return field(cast("Mapping[str, Any]", outputs), "logits", "start_logits")
    return outputs if isinstance(outputs, Tensor) else _without_loss(outputs)[0]


def with_loss(outputs: Any, loss: Tensor) -> Any:
    """Return the model's output with the Trainer's loss. A loss function of the user's may give scores alone."""
    if isinstance(outputs, Tensor):
        return loss, outputs
    if isinstance(outputs, dict):
        return {**cast("dict[str, Any]", outputs), "loss": loss}
    return loss, *_without_loss(outputs)


def _without_loss(outputs: "tuple[Tensor, ...]") -> "tuple[Tensor, ...]":
    """Drop the loss that a tuple of a model (`return_dict=False`) starts with if the model got labels."""
    return outputs[1:] if outputs[0].dim() == 0 else outputs


PASS_COUNTS = ("_metrics", "_total_train_tokens")  # what TRL's Trainers note in compute_loss
STEP_COUNTS = ("_step",)  # in training_step


@contextmanager
def keep_counts(trainer: Trainer, names: Iterable[str]) -> Generator[None]:
    """Leave what a Trainer counts as it was: a method makes several passes over a batch, and one of them is counted."""
    before = {name: vars(trainer)[name] for name in names if name in vars(trainer)}
    empty = {
        name: {mode: defaultdict[str, list[float]](list) for mode in cast("dict[str, Any]", value)}
        for name, value in before.items()
        if isinstance(value, dict)
    }
    vars(trainer).update(empty)
    try:
        yield
    finally:
        vars(trainer).update(before)
