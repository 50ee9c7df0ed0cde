"""An Accelerate loop is the plain loop."""

from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

import toughen
from toughen.errors import MethodError

from ..tiny import LETTERS
from ..tiny import small_bert as bert
from .driving import ALL, assert_equal, collated, made, texts, weights

pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")


def accelerator(steps: int) -> Accelerator:
    for shared in (AcceleratorState, GradientState, PartialState):
        shared._reset_state()
    return Accelerator(cpu=True, gradient_accumulation_steps=steps)


def plain_loop(name: str, steps: int) -> dict[str, torch.Tensor]:
    model = bert(0.0).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attached = made(name).attach(model, LETTERS, total_steps=4)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    for i in range(4):
        batch, last = collated(texts()[4 * i : 4 * i + 4]), (i + 1) % steps == 0
        attached.backward(model, batch, accumulate=steps, last=last, step=step)
        if last:
            step()
    return weights(model)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("steps", [1, 2])
def test_accelerated_loop_is_the_plain_loop(name: str, steps: int) -> None:
    accelerate = accelerator(steps)
    model = bert(0.0).train()
    attached = made(name).attach(model, LETTERS, total_steps=4)
    prepared: Any
    optimizer: Any
    prepared, optimizer = accelerate.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    for i in range(4):
        batch = collated(texts()[4 * i : 4 * i + 4])
        with accelerate.accumulate(prepared):
            toughen.accelerated_backward(accelerate, attached, prepared, batch, step=step)
            step()
    for key, value in plain_loop(name, steps).items():
        torch.testing.assert_close(weights(model)[key], value, rtol=1e-6, atol=1e-7, msg=key)


def test_without_accumulation_it_is_bit_for_bit_accelerate_s_own() -> None:
    found = []
    for ours in (False, True):
        accelerate = accelerator(1)
        model = bert(0.1).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        attached = toughen.plain().attach(model) if ours else None
        torch.manual_seed(4)
        for _ in range(3):
            if attached is None:
                accelerate.backward(model(**collated(texts())).loss)
            else:
                toughen.accelerated_backward(accelerate, attached, model, collated(texts()))
            optimizer.step()
            optimizer.zero_grad()
        found.append(weights(model))
    assert_equal(*found)


def test_freeat_asks_for_its_step() -> None:
    model = bert()
    with pytest.raises(MethodError, match="step="):
        toughen.accelerated_backward(accelerator(1), toughen.freeat().attach(model), model, collated(texts()))
