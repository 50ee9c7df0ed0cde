"""ASA's numbers are the authors', case by case."""

import pytest
import torch

import toughen

from .cases import error, gradient_errors, load, model_of, names, under

CASES = names("asa")


def attach(facts, tensors, model):
    attached = toughen.asa("original", tau=facts["hyper_parameters"]["tau"]).attach(model)
    attached.adversary.load_state_dict(under(tensors, "adversary/"))
    return attached


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("case", CASES)
def test_case(case, implementation):
    facts, tensors = load("asa", case)
    model = model_of(facts, tensors)
    model.set_attn_implementation(implementation)
    batch, scalars = under(tensors, "input/"), facts["expected_scalars"]
    attached = attach(facts, tensors, model)

    assert error(model(**batch).logits.detach(), tensors["expect/logits"]) < 1e-9
    output, masks = attached.perturbed_forward(batch)
    assert error(output.logits, tensors["expect/adv_logits"]) < 1e-9
    assert list(masks) == list(range(model.config.num_hidden_layers))
    for layer, mask in masks.items():
        assert torch.equal(mask.double(), tensors[f"expect/mask_layer{layer}"])

    total = attached.backward(model, batch)
    seen = attached.report()
    assert error(total, scalars["total_loss"]) < 1e-9
    assert error(seen["divergence"], scalars["vloss"]) < 1e-9
    assert error(seen["budget"], scalars["rloss"]) < 1e-9
    assert error(seen["loss_clean"], scalars["task_loss"]) < 1e-9
    ours = {k: v for k, v in tensors.items() if k.startswith("grad/") and not k.startswith("grad/adversary/")}
    errors = gradient_errors(model, ours) | gradient_errors(attached.adversary, tensors, "grad/adversary/")
    assert len(errors) == len(list(model.parameters())) - len(facts["grad_none"])
    assert max(errors.values()) < 1e-9, errors


def test_float32():
    facts, tensors = load("asa", "bert_seq")
    model = model_of(facts, tensors).float()
    attached = attach(facts, tensors, model)
    total = attached.backward(model, under(tensors, "input/"))
    assert error(total, facts["expected_scalars"]["total_loss_f32"]) < 1e-4
    assert max(gradient_errors(attached.adversary, tensors, "grad/adversary/").values()) < 1e-3


def test_a_batch_without_labels_has_the_added_term_alone():
    facts, tensors = load("asa", "bert_seq")
    model, scalars = model_of(facts, tensors), facts["expected_scalars"]
    batch = under(tensors, "input/")
    del batch["labels"]
    total = attach(facts, tensors, model).backward(model, batch)
    assert error(total, scalars["total_loss"] - scalars["task_loss"]) < 1e-9
