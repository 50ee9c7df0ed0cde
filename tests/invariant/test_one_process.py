"""One process: how a batch is split and what wraps the model must not change an update."""

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import toughen
from toughen.errors import SiteError
from toughen.sites import Hidden

from .table import METHODS, Mini, assert_same, batch, start, tiny, updates

pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
each = pytest.mark.parametrize("name", METHODS)


@cache
def reference(name: str) -> dict[str, Tensor]:
    return updates(METHODS[name]())


@each
@pytest.mark.parametrize("pieces", [2, 4])
def test_accumulated_micro_batches_are_one_batch(name: str, pieces: int) -> None:
    assert_same(updates(METHODS[name](), accumulate=pieces), reference(name))


@each
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_gradient_checkpointing_changes_nothing(name: str, dropout: float) -> None:
    model = tiny(dropout)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    expected = updates(METHODS[name](), model=tiny(dropout)) if dropout else reference(name)
    assert_same(updates(METHODS[name](), model=model), expected)


@pytest.mark.parametrize("layer", [0, 1, "bert.encoder.layer.0.attention", "bert.encoder.layer.1.intermediate.dense"])
@pytest.mark.parametrize("steps", [1, 3])
def test_places_inside_checkpointed_layers(layer: int | str, steps: int) -> None:
    # So far and so dear that the passes differ: layers recomputed as clean ones must not go unseen.
    method = toughen.alum(layer, init=start, steps=steps, weight=1e3, step_size=3.0, max_norm=3.0)
    model = tiny(0.2)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert_same(updates(method, model=model), updates(method, model=tiny(0.2)))


def test_recomputed_layers_leave_no_perturbation_behind() -> None:
    """The backward pass of a method without a clean pass ends in layers that were perturbed."""
    method = replace(toughen.freelb(init=start), site=Hidden("bert.encoder.layer.0.attention"))
    model = tiny()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with method.attach(model) as attached:
        attached.backward(model, batch(0))
        assert not attached.states[0].injector.active


@each
def test_compile_changes_nothing(name: str) -> None:
    if name in ("creat", "asa"):
        pytest.skip("it needs a transformers model: see test_compiled_bert")
    if name.startswith("typos"):
        pytest.skip("its passes are those of other methods, and each shape of a view would be compiled")
    torch._dynamo.reset()
    found = updates(METHODS[name](), model=Mini(), wrap=lambda model: torch.compile(model, backend="aot_eager"))
    assert_same(found, updates(METHODS[name](), model=Mini()))


@pytest.mark.parametrize("name", ["alum", "creat", "asa"])
def test_compiled_bert(name: str) -> None:
    torch._dynamo.reset()
    found = updates(METHODS[name](), wrap=lambda model: torch.compile(model, backend="eager"))
    assert_same(found, reference(name))


def test_compiled_code_of_another_method_is_named_with_the_way_out() -> None:
    """torch.compile does not look for new hooks."""
    torch._dynamo.reset()
    model, data = Mini(), batch(1)
    compiled = torch.compile(model, backend="eager")
    with toughen.neftune().attach(model) as attached:
        attached.backward(compiled, data)
    with replace(toughen.neftune(), site=toughen.sites.Hidden(0)).attach(model) as attached:
        with pytest.raises(SiteError, match=r"torch\._dynamo\.reset\(\)"):
            attached.backward(compiled, data)
        torch._dynamo.reset()
        attached.backward(compiled, data)


@each
def test_a_loss_scale_changes_nothing(name: str) -> None:
    scale = 2.0**16
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    model = tiny()

    def unscale(_attached: object) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # of what is there once a method is attached
        scaler.unscale_(optimizer)
        scaler.update(scale)

    if name == "freeat":
        pytest.skip("its own optimizer steps need the scaler's: see test_freeat_steps_through_a_scaler")
    found = updates(
        METHODS[name](), model=model, backward=lambda loss: scaler.scale(loss).backward(), before_gradients=unscale
    )
    assert_same(found, reference(name))


def test_freeat_steps_through_a_scaler() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    weights = []
    for scaled in (False, True):
        model = tiny()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        attached = METHODS["freeat"]().attach(model)

        def step(scaled: bool = scaled, optimizer: torch.optim.Optimizer = optimizer) -> None:
            if scaled:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()

        backward = (lambda loss: scaler.scale(loss).backward()) if scaled else None
        attached.backward(model, batch(0), backward=backward, step=step)
        step()
        weights.append({name: p.detach() for name, p in model.named_parameters()})
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=1e-9, atol=1e-9)


@each
def test_autocast_runs_and_is_close(name: str) -> None:
    expected = updates(METHODS[name](), model=tiny(dtype=torch.float32), number=1)
    with torch.autocast("cpu", torch.bfloat16):
        found = updates(METHODS[name](), model=tiny(dtype=torch.float32), number=1)
    keys = [key for key in expected if not key.startswith("weight/") and key != "loss"]
    a, b = (torch.cat([grads[key].flatten() for key in keys]) for grads in (found, expected))
    assert torch.isfinite(a).all()
    assert torch.nn.functional.cosine_similarity(a, b, dim=0) > 0.97
    assert (a - b).norm() < 0.25 * b.norm()


@pytest.mark.parametrize("name", ["sam", "awp", "bregman", "freeat"])
def test_autocast_around_the_step_sees_every_change_of_weights(name: str) -> None:
    """Autocast caches half-precision weights; methods that change weights within a step must not get old ones."""

    class Inside(torch.nn.Module):
        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, **inputs: Tensor) -> object:
            with torch.autocast("cpu", torch.bfloat16):
                return self.model(**inputs)

    number = 1 if name == "freeat" else 2  # at first a teacher is the student; FreeAT's last update is the loop's own
    # The inner block ends with every pass, and the cache with it.
    expected = updates(METHODS[name](), model=tiny(dtype=torch.float32), wrap=Inside, number=number)
    with torch.autocast("cpu", torch.bfloat16):
        found = updates(METHODS[name](), model=tiny(dtype=torch.float32), number=number)
    assert_same(found, expected, tolerance=1e-5)


def test_an_error_in_a_step_puts_moved_weights_back() -> None:
    model = tiny()
    before = [p.detach().clone() for p in model.parameters()]
    attached = toughen.sam().attach(model)
    calls = []

    def failing(loss: Tensor) -> None:
        calls.append(loss)
        if len(calls) == 2:
            raise MemoryError
        loss.backward()

    try:
        attached.backward(model, batch(0), backward=failing)
    except MemoryError:  # the traceback is alive here, and with it the step's frames
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["sam", "asam", "awp", "fgm-matrix", "bregman"])
def test_other_weights_are_in_for_a_pass_only(name: str) -> None:
    """The model's own come back to the last bit, in the memory they were in: optimizers and CUDA graphs know it."""
    model, seen = tiny(), []
    handle = model.register_forward_pre_hook(
        lambda _module, _args: seen.append([p.detach().clone() for p in model.parameters()])
    )
    with METHODS[name]().attach(model, total_steps=10) as attached:
        for update in range(2):
            with torch.no_grad():
                for p in model.parameters():
                    p += 0.01 * update  # the teacher is then another
            before = [(p.data_ptr(), p.detach().clone()) for p in model.parameters()]
            attached.backward(model, batch(update))
            for (address, value), p in zip(before, model.parameters(), strict=True):
                assert p.data_ptr() == address
                assert torch.equal(p, value)
            model.zero_grad()
    handle.remove()
    assert len(seen) == 4
    assert not all(torch.equal(a, b) for a, b in zip(seen[-2], seen[-1], strict=True))


@pytest.mark.parametrize("name", ["fgm", "alum", "sift"])
def test_a_copy_of_the_model_is_not_perturbed_with_it(name: str) -> None:
    """A teacher for distillation, copied after the method was attached and run inside its passes."""
    model, data = tiny(), batch(1)
    copied: list[nn.Module] = []
    seen: list[Tensor] = []

    def forward(_: Any) -> Any:
        output = model(**data)
        with torch.no_grad():
            seen.append(copied[0](**data).logits)
        return output

    with toughen.create_method(name).attach(model) as attached:
        copied.append(copy.deepcopy(model))
        for loss in attached.losses(forward, data):
            loss.backward()
    assert len(seen) > 1
    assert all(torch.equal(logits, seen[0]) for logits in seen)
