"""Laws of the hot path: a step reads nothing from the device, and keeps nothing for the next one."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import toughen
from toughen.runs.method_config import describe_methods as known

from ..tiny import LETTERS, LIKE_TYPOS, bert, make, text_batch

OURS = str(Path(toughen.__file__).parent)
# What makes a CUDA program wait: a number is read, a shape depends on values, or a number of Python's is copied there.
WAITS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "lift_fresh"}
PRESETS = [
    (name, preset) for name, each in known().items() if name not in LIKE_TYPOS for preset in each.presets or [None]
]
SUMS = ["smart+bregman", "freelb+smart", "asa+rdrop", "typos+smart"]
NAMES = [name for name in known() if name not in LIKE_TYPOS]


class Watch(TorchDispatchMode):
    """Notes which lines of ours would wait for a device, if there were one; transformers' own are not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        by_mask = name.startswith("index") and isinstance(args[1], (list, tuple))
        if name in WAITS or (by_mask and any(each is not None and each.dtype == torch.bool for each in args[1])):
            frame = sys._getframe(1)
            while frame is not None and "/torch/" in frame.f_code.co_filename:
                frame = frame.f_back
            if frame is not None and frame.f_code.co_filename.startswith(OURS):
                self.lines.add(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({name})")
        return func(*args, **(kwargs or {}))


def stepper(method: Any, model: nn.Module) -> tuple[Any, Callable[[int], None]]:
    """The method on the model, and a function that makes the update of a number."""
    attached = method.attach(model, LETTERS, seed=0, total_steps=100)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def move() -> None:
        optimizer.step()
        optimizer.zero_grad()

    def update(number: int) -> None:
        for part in (0, 1):  # two micro-batches, so that windows are opened and closed
            batch = text_batch(seed=2 * number + part)
            attached.backward(model, batch, accumulate=2, last=part == 1, step=move)
        move()

    return attached, update


def with_dropout() -> nn.Module:
    return bert(torch.float32, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


@pytest.mark.parametrize(("name", "preset"), [*PRESETS, *((each, None) for each in SUMS)])
def test_no_step_waits_for_the_device(name: str, preset: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toughen.search.weights.bool", lambda _: True, raising=False)  # read on the CPU alone
    method = make(name, **({"preset": preset} if preset else {}))
    attached, update = stepper(method, with_dropout())
    update(0)  # what is looked at once
    with attached, Watch() as watch:
        update(1)
    assert not watch.lines


def test_the_watch_sees_a_read() -> None:
    """In our own files alone: what this test reads itself is not ours."""
    attached, updates = toughen.plain().attach(bert()), torch.tensor(3)
    with Watch() as watch:
        assert updates.item() == 3
        assert not watch.lines
        attached.load_state_dict({"updates": updates})
    assert len(watch.lines) == 1


@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_nothing_grows_from_step_to_step(name: str) -> None:
    """Counted without the collector: a cycle that holds a graph would keep its memory until it happens to run."""
    gc.collect()
    _, others = _tensors()  # graphs that other tests hold
    attached, update = stepper(make(name), with_dropout())
    gc.disable()
    try:
        for number in range(3):
            update(number)
        before = _tensors()
        assert before[1] == others
        for number in range(3, 8):
            update(number)
        assert _tensors() == before
    finally:
        gc.enable()
    attached.detach()


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_without_the_method_leaves_nothing_behind(name: str) -> None:
    """An evaluation's hidden states would stay on the device until the next step, and with gradients their graph."""
    model = with_dropout()
    attached, update = stepper(make(name), model)
    update(0)
    gc.collect()
    before = _tensors()
    loss = model(**text_batch()).loss
    assert _tensors()[1] > before[1]
    del loss
    assert _tensors() == before
    attached.detach()


def _tensors() -> tuple[int, int]:
    """How many there are, and how many with a graph."""
    found = [each for each in gc.get_objects() if isinstance(each, Tensor)]
    return len(found), sum(each.grad_fn is not None for each in found)
