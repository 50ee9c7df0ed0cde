import pytest
import torch

import toughen
from toughen.search import Absolute, Uniform, UniformBall
from toughen.sites.base import Activation

from .cases import error, gradient_errors, load, model_of, names, under


@pytest.mark.parametrize("preset", ["original", "plus"])
@pytest.mark.parametrize("case", names("freelb"))
def test_the_preset_is_run_glue_freelb(case, preset):
    """FreeLB++ is the same loop with other numbers; these models have no dropout."""
    facts, tensors = load("freelb", case)
    h = facts["hyper_parameters"]
    model, accumulate = model_of(facts, tensors), h["gradient_accumulation_steps"]
    starts = iter([tensors[f"noise/batch{i}_delta_init"] for i in range(accumulate)])
    method = toughen.freelb(
        preset,
        steps=h["adv_steps"],
        step_size=h["adv_lr"],
        max_norm=h["adv_max_norm"],
        norm=h["norm_type"],
        init=lambda view: next(starts),
    )
    attached = method.attach(model)
    total = 0.0
    for i in range(accumulate):
        batch = under(tensors, f"input/batch{i}_")
        total += attached.backward(model, batch, accumulate=accumulate, last=i == accumulate - 1)
        if h["adv_steps"] > 1:
            [seen] = attached.last_batches
            expected = tensors[f"expect/batch{i}_delta_step{h['adv_steps'] - 1}"]
            assert error(seen.perturbation.at[0].detach(), expected) <= 1e-9
    assert error(total, facts["expected_scalars"]["reported_total_loss"]) <= 1e-9
    assert max(gradient_errors(model, tensors).values()) <= 1e-9


@pytest.mark.parametrize("case", names("freelb"))
def test_the_start_is_the_original_draw(case, monkeypatch):
    facts, tensors = load("freelb", case)
    h = facts["hyper_parameters"]
    if h["adv_init_mag"] == 0:
        pytest.skip("starts from zero")
    uniform, expected = tensors["noise/batch0_uniform"], tensors["noise/batch0_delta_init"]
    mask = tensors["input/batch0_attention_mask"].unsqueeze(-1).bool()
    view = Activation(torch.zeros_like(uniform), mask)
    # The recorded draw in place of ours, which is made position by position.
    monkeypatch.setattr(torch, "rand", lambda shape, **_: ((uniform + 1) / 2).transpose(0, 1))
    init = UniformBall(h["adv_init_mag"]) if h["norm_type"] == "l2" else Uniform(h["adv_init_mag"])
    assert error(view.masked(init(view, Absolute())), expected) <= 1e-9


@pytest.mark.parametrize("case", names("freelb_paragen"))
def test_the_preset_is_paragen(case):
    facts, tensors = load("freelb_paragen", case)
    h = facts["hyper_parameters"]
    model = model_of(facts, tensors)
    batch = {key: tensors[f"input/{key}"] for key in ("input_ids", "attention_mask", "labels")}
    method = toughen.freelb(
        "paragen",
        step_size=h["adv_lr"],
        max_norm=h["max_norm"],
        init=lambda view: tensors["noise/delta_init"],
    )
    attached = method.attach(model)
    total = attached.backward(model, batch)
    losses = [facts["expected_scalars"][f"loss_step{i}"] for i in range(3)]
    assert error(total, sum(losses)) <= 1e-9
    [seen] = attached.last_batches
    assert error(seen.perturbation.at[0].detach(), tensors["expect/delta_step2"]) <= 1e-9
    assert max(gradient_errors(model, tensors).values()) <= 1e-9
