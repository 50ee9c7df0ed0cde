import pytest
import torch
from torch import nn

import toughen
from toughen import compat
from toughen.errors import SiteError, StepError

from ..tiny import bert, gradients, text_batch
from .cases import error, gradient_errors, load, model_of, names, under


def tolerance(facts):
    # transformers' DeBERTa head takes its loss in float32, whatever the model's precision.
    return 1e-6 if facts["model"]["arch"] == "deberta" else 1e-9


def logits_fn(model, **data):
    return model(**data).logits


@pytest.mark.parametrize("case", names("sift"))
def test_the_readme_of_deberta(case):
    facts, tensors = load("sift", case)
    h = facts["hyper_parameters"]
    model, batch = model_of(facts, tensors), under(tensors, "input/")
    layers = compat.hook_sift_layer(
        model,
        hidden_size=model.config.hidden_size,
        learning_rate=h["learning_rate"],
        init_perturbation=h["init_perturbation"],
        init=lambda normalised: tensors["noise/delta_init"],
    )
    adv = compat.AdversarialLearner(model, layers)
    clean = model(**batch)
    assert error(clean.logits.detach(), tensors["expect/logits_clean"]) <= 1e-9
    sift = adv.loss(clean.logits, logits_fn, loss_fn=h["loss_fn"], **batch)
    assert error(sift.detach(), facts["expected_scalars"]["sift_loss"]) <= 1e-9
    (clean.loss + h["vat_lambda"] * sift).backward()
    assert max(gradient_errors(model, tensors).values()) <= tolerance(facts)


@pytest.mark.parametrize(
    "case", [n for n in names("sift") if load("sift", n)[0]["hyper_parameters"]["loss_fn"] == "symmetric-kl"]
)
def test_the_preset_is_deberta(case):
    facts, tensors = load("sift", case)
    h = facts["hyper_parameters"]
    model, batch = model_of(facts, tensors), under(tensors, "input/")
    method = toughen.sift(
        "deberta", weight=h["vat_lambda"], step_size=h["learning_rate"], init=lambda view: tensors["noise/delta_init"]
    )
    attached = method.attach(model)
    total = attached.backward(model, batch)
    assert error(total, facts["expected_scalars"]["total_loss"]) <= tolerance(facts)
    [seen] = attached.last_batches
    assert error(seen.perturbation.at[0], tensors["expect/delta_updated"]) <= 1e-9
    assert max(gradient_errors(model, tensors).values()) <= tolerance(facts)
    attached.detach()
    assert error(model(**batch).logits.detach(), tensors["expect/logits_unhooked"]) <= 1e-9


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = Tower(), Tower()

    def forward(self, a, b):
        return torch.cat([self.left(a), self.right(b)], dim=-1)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleDict({"LayerNorm": nn.LayerNorm(8)})
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.embeddings["LayerNorm"](x))


@pytest.mark.parametrize(
    ("case", "moved"), [("bert_big_step_kl", 1e-11), ("deberta_big_step", 1e-6), ("roberta_mse", 1e-4)]
)
def test_the_extra_layer_keeps_the_models_function(case, moved):
    """Normalising twice is normalising once but for eps; docs/papers.md says by how much logits move."""
    facts, tensors = load("sift", case)
    model, batch = model_of(facts, tensors).eval(), under(tensors, "input/")
    with torch.no_grad():
        before = model(**batch).logits
        compat.hook_sift_layer(model, hidden_size=model.config.hidden_size)
        change = (model(**batch).logits - before).abs().max()
    assert moved / 100 < change < moved


def test_two_matching_modules_have_a_layer_each():
    torch.manual_seed(0)
    model = TwoTowers()
    a, b = torch.randn(3, 8), torch.randn(3, 8)
    layers = compat.hook_sift_layer(model, hidden_size=8)
    target = model(a, b)
    assert not torch.equal(layers[0].input, layers[1].input)
    loss = compat.AdversarialLearner(model).loss(target, lambda m, a, b: m(a, b), a, b)
    loss.backward()
    assert model.left.out.weight.grad.abs().sum() > 0
    assert model.right.out.weight.grad.abs().sum() > 0


def test_hooking_again_replaces_the_layer():
    model = Tower()
    compat.hook_sift_layer(model, hidden_size=8)
    [second] = compat.hook_sift_layer(model, hidden_size=8)
    model(torch.randn(2, 8, requires_grad=True))
    assert second.input is not None
    assert not second.input.requires_grad  # nor is the graph of the pass held by it
    assert compat.AdversarialLearner(model).adv_modules == [second]


def test_regression_has_a_term():
    torch.manual_seed(0)
    model = Tower()
    model.out = nn.Linear(8, 1)
    compat.hook_sift_layer(model, hidden_size=8, init_perturbation=0.1)
    x = torch.randn(3, 8)
    assert compat.AdversarialLearner(model).loss(model(x), lambda m, x: m(x), x) > 0


def test_regression_is_the_same_in_compat_and_in_the_preset():
    """Both climb the sum of squared errors: a mean's shorter gradient, beside the guard of 1e-6, is another step."""
    batch = {**text_batch(), "labels": torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64)}
    noise = 0.01 * torch.randn(3, 10, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(5))

    def scaled():  # gradients as small as the guard
        model = bert(num_labels=1)
        with torch.no_grad():
            model.classifier.weight.mul_(1e-3)
        return model

    model = scaled()
    layers = compat.hook_sift_layer(model, 32, init=lambda normalised: noise)
    clean = model(**batch)
    (clean.loss + 5.0 * compat.AdversarialLearner(model, layers).loss(clean.logits, logits_fn, **batch)).backward()
    theirs = gradients(model)

    model = scaled()
    with toughen.sift("deberta", init=lambda view: noise).attach(model) as attached:
        attached.backward(model, batch)
    ours = gradients(model)
    assert ours.keys() == theirs.keys()
    assert max(error(ours[name], theirs[name]) for name in ours) < 1e-12
    sizes = [
        float((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max().clamp(min=1e-30)) for name in ours
    ]
    assert max(sizes) < 1e-6


def test_a_seed_draws_the_original_noise():
    """`normal_(0, init)`, clamped at twice its deviation, of `PerturbationLayer.update_delta`."""
    tower = Tower()
    [layer] = compat.hook_sift_layer(tower, hidden_size=8, init_perturbation=0.1)
    x = torch.randn(2, 5, 8)
    tower(x)
    layer.adversarial_(True)
    torch.manual_seed(3)
    start = layer(x) - layer.input
    torch.manual_seed(3)
    expected = torch.empty(2, 5, 8).normal_(0, 0.1).clamp(-0.2, 0.2)
    torch.testing.assert_close(start.detach(), expected)


def test_what_is_wrong_is_said():
    model = nn.Linear(8, 2)
    with pytest.raises(SiteError, match=r"no module 'embeddings.LayerNorm'"):
        compat.hook_sift_layer(model, hidden_size=8)
    with pytest.raises(SiteError, match="hook_sift_layer"):
        compat.AdversarialLearner(model)
    tower = Tower()
    adv = compat.AdversarialLearner(tower, compat.hook_sift_layer(tower, hidden_size=8))
    with pytest.raises(StepError, match="clean pass"):
        adv.loss(torch.zeros(1, 2), lambda m, x: m(x), torch.zeros(1, 8))
    with pytest.raises(StepError, match="no loss 'k1'"):
        adv.loss(torch.zeros(1, 2), lambda m, x: m(x), torch.zeros(1, 8), loss_fn="k1")
    with pytest.raises(SiteError, match=r"hidden_size is 768, but the LayerNorm .* Give hidden_size=8"):
        compat.hook_sift_layer(tower, hidden_size=768)


def test_the_readmes_unpacking_of_a_transformers_output_is_told():
    model = bert(torch.float32)
    data = text_batch()
    adv = compat.AdversarialLearner(model, compat.hook_sift_layer(model, model.config.hidden_size))

    def logits_fn(model, *wargs, **kwargs):
        logits, _ = model(*wargs, **kwargs)
        return logits

    with pytest.raises(StepError, match=r"first argument of loss\(\) is of type str.*use model\(\*\*data\)\.logits"):
        adv.loss(logits_fn(model, **data), logits_fn, **data)
    with pytest.raises(StepError, match=r"logits_fn gives is of type str"):
        adv.loss(model(**data).logits, logits_fn, **data)
