import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import toughen
import toughen.errors
from toughen import compat
from toughen.compare import Divergence
from toughen.sites import Hidden

from .cases import error, gradient_errors, load, model_of, names, under

LOSSES = {
    "kl": compat.kl_loss,
    "sym_kl": compat.sym_kl_loss,
    "mse": F.mse_loss,
    "sym_kl_batchmean_alpha0.5": lambda a, b: compat.sym_kl_loss(a, b, "batchmean", 0.5),
    None: None,
}
NORMS = {"linf": compat.inf_norm, "l2": lambda x: x.norm(dim=-1, keepdim=True)}


class Linear(nn.Linear):
    pass


class MLP(nn.Module):
    def __init__(self, weights):
        super().__init__()
        (hidden, width), (out, _) = weights["l1.weight"].shape, weights["l2.weight"].shape
        self.l1, self.l2 = nn.Linear(width, hidden), nn.Linear(hidden, out)

    def forward(self, embed):
        return self.l2(self.l1(embed).tanh())


class TokenMLP(MLP):
    def forward(self, embed):
        return self.l2(self.l1(embed).tanh().mean(1))


def small_model(facts, tensors):
    weights, kind = under(tensors, "param/"), facts["architecture"]["type"]
    if kind == "Linear":
        model = Linear(weights["weight"].shape[1], weights["weight"].shape[0])
    else:
        model = {"MLP": MLP, "TokenMLP": TokenMLP}[kind](weights)
    model = model.double()
    model.load_state_dict(weights)
    return model


def regulariser(facts, tensors, function):
    h = facts["hyper_parameters"]
    return compat.SMARTLoss(
        function,
        LOSSES[h["loss_fn"]],
        LOSSES[h["loss_last_fn"]],
        norm_fn=NORMS[h["norm"]],
        num_steps=h["num_steps"],
        step_size=h["step_size"],
        epsilon=h["epsilon"],
        noise_var=h["noise_var"],
        init=lambda embed: tensors["noise/init"],
    )


def task_loss(facts, state, tensors):
    if facts["hyper_parameters"]["task_loss"].startswith("mse"):
        return F.mse_loss(state, tensors["input/target"])
    return F.cross_entropy(state, tensors["input/labels"])


@pytest.mark.parametrize("case", [n for n in names("smart") if load("smart", n)[0]["model"] is None])
def test_smart_loss_on_small_functions(case):
    facts, tensors = load("smart", case)
    model, embed = small_model(facts, tensors), tensors["input/embed"].clone().requires_grad_()
    state = model(embed)
    smart = regulariser(facts, tensors, model)(embed, state)
    total = task_loss(facts, state, tensors) + facts["hyper_parameters"]["weight"] * smart
    assert error(smart.detach(), facts["expected_scalars"]["smart_loss"]) <= 1e-9
    assert error(total.detach(), facts["expected_scalars"]["total_loss"]) <= 1e-9
    total.backward()
    assert max(gradient_errors(model, tensors).values()) <= 1e-9
    assert error(embed.grad, tensors["grad_input/embed"]) <= 1e-9


def functions_of(model, batch, mode):
    """The embedding of a case and the function of it that the original was given."""
    backbone = model.base_model
    rest = {k: v for k, v in batch.items() if k not in ("input_ids", "labels")}
    if mode == "embedding_output":
        embed = backbone.embeddings(batch["input_ids"], batch.get("token_type_ids"))

        def function(e):
            with_e = backbone.embeddings.register_forward_hook(lambda *_: e)
            try:
                return model(input_ids=batch["input_ids"], **rest).logits
            finally:
                with_e.remove()

        return embed, function
    if mode == "word":
        embed = model.get_input_embeddings()(batch["input_ids"])
    else:  # the README's way, which embeds twice
        embed = backbone.embeddings(batch["input_ids"], batch.get("token_type_ids"))
    return embed, lambda e: model(inputs_embeds=e, **rest).logits


@pytest.mark.parametrize("case", [n for n in names("smart") if load("smart", n)[0]["model"] is not None])
def test_smart_loss_on_transformers(case):
    facts, tensors = load("smart", case)
    model, batch = model_of(facts, tensors), under(tensors, "input/")
    embed, function = functions_of(model, batch, facts["hyper_parameters"]["embed_mode"])
    assert error(embed.detach(), tensors["expect/embed"]) <= 1e-9
    state = function(embed)
    smart = regulariser(facts, tensors, function)(embed, state)
    total = task_loss(facts, state, tensors) + facts["hyper_parameters"]["weight"] * smart
    assert error(total.detach(), facts["expected_scalars"]["total_loss"]) <= 1e-9
    total.backward()
    assert max(gradient_errors(model, tensors).values()) <= 1e-9


def test_the_preset_is_smart_pytorch():
    facts, tensors = load("smart", "bert_word_kl_symkl_inf_k1")
    model, batch = model_of(facts, tensors), under(tensors, "input/")
    attached = toughen.smart("smart-pytorch", init=lambda view: tensors["noise/init"]).attach(model)
    total = attached.backward(model, batch)
    assert error(total, facts["expected_scalars"]["total_loss"]) <= 1e-9
    [batch_seen] = attached.last_batches
    assert error(batch_seen.perturbation.at[0], tensors["expect/noise_step1"]) <= 1e-9
    assert max(gradient_errors(model, tensors).values()) <= 1e-9


class Toy(nn.Module):
    """The small model of the mt-dnn cases, as a module with an embedding block of its own."""

    def __init__(self, weights):
        super().__init__()
        self.embeddings = ToyEmbeddings(weights)
        (hidden, width), (out, _) = weights["l1.weight"].shape, weights["l2.weight"].shape
        self.l1, self.l2 = nn.Linear(width, hidden), nn.Linear(hidden, out)

    def forward(self, input_ids, attention_mask, token_type_ids, labels=None, target=None):
        hidden = self.l1(self.embeddings(input_ids, token_type_ids)).tanh()
        mask = attention_mask.unsqueeze(-1).to(hidden)
        logits = self.l2((hidden * mask).sum(1) / mask.sum(1))
        loss = F.cross_entropy(logits, labels) if labels is not None else F.mse_loss(logits.squeeze(), target.squeeze())
        return {"loss": loss, "logits": logits}


class ToyEmbeddings(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.word = nn.Embedding(*weights["word.weight"].shape)
        self.seg = nn.Embedding(*weights["seg.weight"].shape)

    def forward(self, input_ids, token_type_ids):
        return self.word(input_ids) + self.seg(token_type_ids)


def toy(tensors):
    weights = under(tensors, "param/")
    model = Toy(weights).double()
    inner = {f"embeddings.{k}" if k.startswith(("word", "seg")) else k: v for k, v in weights.items()}
    model.load_state_dict(inner)
    return model


def toy_gradient_errors(model, tensors):
    found = {name.removeprefix("embeddings."): p.grad for name, p in model.named_parameters()}
    return {name: error(found[name], value) for name, value in under(tensors, "grad/").items()}


def mt_dnn_smart(facts, tensors, function):
    h = facts["hyper_parameters"]
    outer = getattr(compat, h["adv_loss"])()
    regression = h["task_type"] == "Regression"
    return compat.SMARTLoss(
        function,
        (lambda a, b: F.mse_loss(a, b, reduction="sum"))
        if regression
        else (lambda a, b: compat.stable_kl(a, b, reduce=False)),
        lambda new, clean: outer(clean, new),
        num_steps=h["k"],
        step_size=h["step_size"],
        epsilon=h["epsilon"],
        noise_var=h["noise_var"],
        init=lambda embed: tensors["noise/init"],
    )


@pytest.mark.parametrize("case", [n for n in names("mtdnn_smart") if n.startswith("toy")])
def test_mt_dnn_on_a_toy(case):
    facts, tensors = load("mtdnn_smart", case)
    model, batch = toy(tensors), under(tensors, "input/")
    embed = model.embeddings(batch["input_ids"], batch["token_type_ids"])

    def function(e):
        with_e = model.embeddings.register_forward_hook(lambda *_: e)
        try:
            return model(**batch)["logits"]
        finally:
            with_e.remove()

    clean = model(**batch)
    adv = mt_dnn_smart(facts, tensors, function)(embed, clean["logits"])
    total = clean["loss"] + facts["hyper_parameters"]["adv_alpha"] * adv
    assert error(adv.detach(), facts["expected_scalars"]["adv_loss"]) <= 1e-9
    assert error(clean["loss"].detach(), facts["expected_scalars"]["task_loss"]) <= 1e-9
    total.backward()
    assert max(toy_gradient_errors(model, tensors).values()) <= 1e-9


def test_mt_dnn_with_its_double_embedding():
    facts, tensors = load("mtdnn_smart", "bert_double_embedding_symkl_k1")
    model, batch = model_of(facts, tensors), under(tensors, "input/")
    embed, function = functions_of(model, batch, "double_embedding")
    clean = model(**batch)
    adv = mt_dnn_smart(facts, tensors, function)(embed, clean.logits)
    total = clean.loss + facts["hyper_parameters"]["adv_alpha"] * adv
    assert error(total.detach(), facts["expected_scalars"]["total_loss"]) <= 1e-9
    total.backward()
    assert max(gradient_errors(model, tensors).values()) <= 1e-9


@pytest.mark.parametrize("case", ["toy_symkl_k1_default", "toy_nssymkl_k2"])
def test_the_preset_is_mt_dnn(case):
    facts, tensors = load("mtdnn_smart", case)
    h = facts["hyper_parameters"]
    model, batch = toy(tensors), under(tensors, "input/")
    method = toughen.smart(
        "mt-dnn", weight=h["adv_alpha"], step_size=h["step_size"], steps=h["k"], init=lambda view: tensors["noise/init"]
    )
    if h["adv_loss"] == "NsSymKlCriterion":
        method = dataclasses.replace(method, compare=_BothLogOdds())
    assert method.site == Hidden("embeddings", skip=())
    attached = method.attach(model)
    total = attached.backward(model, batch)
    assert error(total, facts["expected_scalars"]["total_loss"]) <= 1e-9
    [seen] = attached.last_batches
    assert error(seen.perturbation.at[0], tensors[f"expect/noise_step{h['k']}"]) <= 1e-9
    assert max(toy_gradient_errors(model, tensors).values()) <= 1e-9


class _BothLogOdds:
    """A comparison of one's own, in three lines: mt-dnn's NsSymKl."""

    needs_clean = True

    def __call__(self, perturbed, clean, deltas):
        one = Divergence("mtdnn_stable_kl")
        return one(perturbed, clean, deltas) + one(clean, perturbed, deltas)


def test_several_states_and_no_grad():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    embed = torch.randn(5, 4)
    loss = compat.SMARTLoss(lambda e: [model(e), model(e).tanh()], [F.mse_loss, F.l1_loss])
    state = [model(embed), model(embed).tanh()]
    assert loss(embed, state) > 0
    with torch.no_grad():
        assert compat.SMARTLoss(model, F.mse_loss)(embed, model(embed)) > 0
    with pytest.raises(toughen.errors.StepError, match="loss functions"):
        compat.SMARTLoss(lambda e: [model(e)] * 3, [F.mse_loss])(embed, state)


def test_a_seed_draws_the_original_noise():
    """`torch.randn_like(embed) * noise_var` of smart-pytorch, for texts as for rows."""
    for shape in ((5, 4), (2, 5, 4)):
        embed, noises = torch.randn(shape), []
        loss = compat.SMARTLoss(lambda e: noises.append(e) or e.tanh(), F.mse_loss, noise_var=0.1)  # noqa: B023
        torch.manual_seed(3)
        loss(embed, embed.tanh())
        torch.manual_seed(3)
        torch.testing.assert_close(noises[0].detach(), embed + torch.randn_like(embed) * 0.1, rtol=0, atol=0)
