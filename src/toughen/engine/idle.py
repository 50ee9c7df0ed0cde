"""Notices that a model is trained while the method that is attached to it has nothing to do."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import RobustnessWarning
from ..sites.base import Detach

WARN_AFTER_BATCHES = 10  # batches; one or two are somebody having a look


def warn_if_method_unused(model: nn.Module, used: Callable[[], bool]) -> Detach:
    """Warn once if batch after batch goes forward and backward and no loss was ever asked of the method.

    Nothing is read from a device, and the hook goes as soon as the method is used. Under torch.compile nothing is said.
    """
    trained = 0

    def look(called: nn.Module, _args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or called is not model:  # a copy of the model has its hooks, too
            return
        if used():
            handle.remove()
        elif trained >= WARN_AFTER_BATCHES:
            handle.remove()
            _warn(model, trained)
        elif model.training and torch.is_grad_enabled():
            once = _FirstCall(count)
            for tensor in _tensors(output):
                tensor.register_hook(once)

    def count() -> None:
        nonlocal trained
        trained += 1

    handle = model.register_forward_hook(look)
    return handle.remove


class _FirstCall:
    """A hook for several outputs of one pass, which may all get a gradient in its backward pass."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    def __call__(self, _gradient: Tensor) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()


def _tensors(output: Any) -> list[Tensor]:
    """The loss, the logits: what somebody may back-propagate from."""
    parts = cast("Mapping[str, Any]", output).values() if isinstance(output, Mapping) else output
    several = cast("Iterable[Any]", parts if isinstance(parts, Iterable) and not isinstance(parts, Tensor) else [parts])
    return [each for each in several if isinstance(each, Tensor) and each.requires_grad]


def _warn(model: nn.Module, batches: int) -> None:
    warnings.warn(
        f"{batches} batches went forward and backward through {type(model).__name__} without the method that is "
        "attached to it: this is plain training. A Trainer must be made by toughen.robust(Trainer)(..., method=method);"
        " in a loop of your own attached.backward(model, batch) stands in place of model(**batch).loss.backward().",
        RobustnessWarning,
        stacklevel=5,
    )
