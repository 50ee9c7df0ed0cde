"""The recommended variant against attention and adversary written out by hand, and that the adversary ascends."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModelForMultipleChoice, AutoModelForTokenClassification

import toughen
from toughen.errors import MethodError, StepError
from toughen.internal.rng import NoiseGenerators
from toughen.schedules import LinearSchedule, TrainingProgress
from toughen.search import mask_function as hide
from toughen.search.counter_rng import draw_words, logistic_noise

from ..tiny import NO_DROPOUT, SMALL, bert, text_batch

BATCH = text_batch()


def kl(target, source):
    return (target.exp() * (target - source)).sum(-1).mean()


@pytest.mark.parametrize("per_head", [False, True])
def test_recommended_is_what_it_says(per_head):
    """BERT's attention with a mask as a product in probability space; each gradient comes from plain autograd."""
    model, strength, temperature, rate = bert(attn_implementation="eager"), 0.7, 0.8, 2.0
    method = toughen.asa(
        weight=1.0,
        visible=0.6,
        temperature=temperature,
        adversary_weight=strength,
        adversary_rate=rate,
        per_head=per_head,
        tau=0.9,
    )
    attached = method.attach(model, seed=5)
    naive = copy.deepcopy(model)
    naive.set_attn_implementation("eager")
    adversary = naive.toughen_adversary
    twin = NoiseGenerators(attached.noise.seed)
    keys = [twin.key(torch.device("cpu")) for _ in range(2)]
    total = attached.backward(model, BATCH)

    real = BATCH["attention_mask"].bool()
    pairs = real[:, None, :, None] & real[:, None, None, :]
    shares = []

    def perturbed(layer, hidden, number):
        own = adversary[str(number)]
        attention = layer.attention.self
        heads = [attention.query, attention.key, attention.value]
        q, k, v = (f(hidden).view(3, -1, 4, 8).transpose(1, 2) for f in heads)
        masks = 4 if per_head else 1
        fixed = hidden.detach()
        aq = (rate * (fixed @ own.query.weight.T + own.query.bias)).view(3, -1, masks, 32 // masks).transpose(1, 2)
        ak = (rate * (fixed @ own.key.weight.T + own.key.bias)).view(3, -1, masks, 32 // masks).transpose(1, 2)
        score = aq @ ak.mT / (32 // masks) ** 0.5 + torch.logit(torch.tensor(0.6, dtype=torch.float64))
        score = score + logistic_noise(draw_words(keys[number], 3, masks, 10), torch.float64)
        soft = (score / temperature).sigmoid()
        hard = (score > 0) | ~real[:, None, :, None]
        hard = hard & real[:, None, None, :]
        empty = ~hard.any(-1, keepdim=True)
        hard = hard | (empty & torch.eye(10, dtype=torch.bool) & pairs)
        change = (soft - soft.detach()) * pairs  # zero, with a gradient
        change = -change * strength / rate  # reversed
        shares.append(((hard & pairs) + change).sum((1, 2, 3)) / pairs.sum((1, 2, 3)) / masks)
        mask = hard + change * hard  # a hidden pair learns from the budget alone
        raised = (q @ k.mT / 8**0.5).exp() * mask
        context = (raised / raised.sum(-1, keepdim=True)) @ v
        out = layer.attention.output(context.transpose(1, 2).reshape(hidden.shape), hidden)
        return layer.output(layer.intermediate(out), out)

    clean = naive(**BATCH)
    hidden = naive.bert.embeddings(BATCH["input_ids"])
    for number, layer in enumerate(naive.bert.encoder.layer):
        hidden = perturbed(layer, hidden, number)
    perturbed = F.log_softmax(naive.classifier(naive.bert.pooler(hidden)), -1)
    plain = F.log_softmax(clean.logits, -1)
    expected = clean.loss + kl(perturbed, plain) + kl(plain, perturbed) + 0.81 * torch.stack(shares).mean()
    expected.backward()

    assert torch.allclose(total, expected, atol=1e-9)
    theirs = dict(naive.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, theirs[name].grad, atol=1e-9), name
        assert parameter.grad.abs().max() > 0 or "embeddings" in name, name


def divergence_at(share, attached, model, batch):
    """The divergence when the pairs with the lowest scores are hidden, so many that `share` stays visible."""
    injector = attached.states[0].injector
    search = injector.search
    low, high = -60.0, 30.0
    with torch.no_grad():
        clean = F.log_softmax(model(**batch).logits, -1)
    for _ in range(40):
        middle = (low + high) / 2
        injector.search = replace(search, keep_prob=1 / (1 + math.exp(-middle)))
        output, masks = attached.perturbed_forward(batch)
        real = batch["attention_mask"].bool()
        pairs = real[:, :, None] & real[:, None, :]
        seen = torch.stack([(mask & pairs).sum() for mask in masks.values()]).sum() / (len(masks) * pairs.sum())
        low, high = (middle, high) if seen < share else (low, middle)
    injector.search = search
    perturbed = F.log_softmax(output.logits, -1)
    return float(kl(perturbed, clean) + kl(clean, perturbed)), float(seen)


def ascend(steps=50):
    """The divergence with a fifth of the pairs hidden, before and after the adversary alone was trained."""
    model = bert(dtype=torch.float32)
    batch = text_batch(rows=8, length=12)
    attached = toughen.asa(visible=0.7, tau=0.05).attach(model, seed=0)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    attached.adversary.requires_grad_(True)
    optimizer = torch.optim.Adam(attached.adversary.parameters(), lr=0.01)
    first = divergence_at(0.8, attached, model, batch)
    for _ in range(steps):
        optimizer.zero_grad()
        attached.backward(model, batch)
        optimizer.step()
    last = divergence_at(0.8, attached, model, batch)
    assert abs(first[1] - last[1]) < 0.02
    return first[0], last[0]


def test_the_adversary_ascends():
    before, after = ascend()  # measured: 0.016 and 0.142
    assert after > 4 * before


def test_without_reversal_it_does_not(monkeypatch):
    """What the test above measures is the reversal: with the gradient as it is, the divergence stays down."""
    backward = hide.StraightThroughMask.backward
    as_it_is = staticmethod(lambda ctx, *grads: tuple(g if g is None else -g for g in backward(ctx, *grads)))
    monkeypatch.setattr(hide.StraightThroughMask, "backward", as_it_is)
    before, after = ascend()  # measured: 0.016 and 0.013
    assert after < 1.5 * before


def test_a_rate_of_its_own():
    """One step of Adam or SGD moves the acting weights `rate` times as far, and the gradient norm stays what it was."""
    for make in (torch.optim.SGD, torch.optim.Adam):
        moves, norms = [], []
        for rate in (1.0, 4.0):
            model = bert()
            attached = toughen.asa(adversary_rate=rate).attach(model, seed=0)
            weight = attached.adversary["0"].query.weight
            before = weight.detach().clone() * rate
            optimizer = make(model.parameters(), lr=1e-3)
            attached.backward(model, BATCH)
            norms.append(weight.grad.norm())
            optimizer.step()
            moves.append(weight.detach() * rate - before)
        assert torch.allclose(norms[0], norms[1])
        assert torch.allclose(moves[1], 4 * moves[0], rtol=1e-3, atol=1e-9)


def test_schedules():
    assert [LinearSchedule(2.0, 1.0, 10).at(TrainingProgress(n)) for n in (0, 5, 10, 50)] == [2.0, 1.5, 1.0, 1.0]
    assert LinearSchedule(0.0, 1.0, 0.5).at(TrainingProgress(25, 100)) == 0.5
    with pytest.raises(MethodError, match="total_steps"):
        LinearSchedule(0.0, 1.0).at(TrainingProgress(3))
    model = bert()
    attached = toughen.asa(weight=(0.0, 1.0, 2), temperature=(2.0, 0.5, 2), adversary_weight=(0, 1, 2)).attach(model)
    grads = []
    for _ in range(3):
        model.zero_grad()
        total = attached.backward(model, BATCH)
        grads.append(attached.adversary["1"].key.weight.grad.abs().max())
        weight = (total - attached.report()["loss_clean"]) / attached.report()["term"]
    assert grads[0] == 0
    assert grads[1] > 0
    assert torch.allclose(weight, torch.ones_like(weight))


@pytest.mark.parametrize(
    "settings",
    [{"tau": -1}, {"temperature": 0}, {"visible": 1.0}, {"rank": 0}, {"adversary_rate": 0}, {"weight": -1},
     {"weight": (1, -1)}, {"preset": "papper"}, {"adversary_weight": -1}, {"temperature": (1, 2, 3, 4)},
     {"tau": math.nan}, {"temperature": math.nan}, {"adversary_rate": math.nan}, {"weight": (1, math.nan)},
     {"weight": (0, 1, math.nan)}, {"temperature": (1, math.inf)}, {"adversary_weight": math.nan}, {"layers": 0},
     {"layers": "0"}, {"layers": [0.5]}],
)  # fmt: skip
def test_wrong_settings(settings):
    with pytest.raises(MethodError):
        toughen.asa(**settings)


def test_parts_that_do_not_fit():
    method = toughen.asa()
    with pytest.raises(MethodError, match="AttentionLogits"):
        replace(method, search=toughen.smart().search)
    with pytest.raises(MethodError, match="AttentionLogits"):
        replace(method, site=toughen.smart().site)
    with pytest.raises(MethodError, match="DivergenceWithBudget"):
        replace(method, compare=toughen.smart().compare)
    with pytest.raises(MethodError, match="one method with a learnt adversary"):
        method + method
    with pytest.raises(MethodError, match="learnt adversary"):
        toughen.smart().attach(bert()).attention_masks(BATCH)


def head(kind, **changes):
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT, **changes})
    return kind.from_config(config).double().train()


def test_tokens_count_only_where_there_is_a_label():
    model = head(AutoModelForTokenClassification)
    labels = torch.randint(0, 3, BATCH["input_ids"].shape).masked_fill(BATCH["attention_mask"] == 0, -100)
    attached = toughen.asa(visible=0.5).attach(model, seed=0)
    batch = {**BATCH, "labels": labels}
    attached.backward(model, batch)
    perturbed, _ = attached.perturbed_forward(batch)
    assert perturbed.logits.shape == (3, 10, 3)
    assert attached.report()["divergence"] > 0


def test_a_mask_for_each_head():
    """Asked of an adversary that has one for all heads, it is told how to have more."""
    real, length = BATCH["attention_mask"].bool(), BATCH["input_ids"].shape[1]
    masks = real[:, None, None].expand(3, 4, length, length).clone()
    masks[:, 1, :, 1:3] = False
    batch = {**BATCH, "attention_mask": masks}
    model = bert()
    with pytest.raises(MethodError, match="per_head=True"):
        toughen.asa().attach(model, seed=0).backward(model, batch)
    model = bert()
    attached = toughen.asa(per_head=True, visible=0.5).attach(model, seed=0)
    attached.backward(model, batch)
    assert not attached.attention_masks(batch)[0][~masks].any()


def test_choices_and_regression():
    choices = {key: BATCH[key].view(3, 1, 10).expand(3, 2, 10).contiguous() for key in ("input_ids", "attention_mask")}
    model = head(AutoModelForMultipleChoice)
    attached = toughen.asa(visible=0.5).attach(model, seed=0)
    attached.backward(model, {**choices, "labels": torch.tensor([0, 1, 0])})
    assert attached.attention_masks(choices)[0].shape == (6, 10, 10)
    assert attached.report()["divergence"] > 0

    model = bert(num_labels=1)
    batch = {**BATCH, "labels": torch.tensor([0.1, 0.5, -1.0], dtype=torch.float64)}
    attached = toughen.asa(visible=0.5).attach(model, seed=0)
    attached.backward(model, batch)
    assert attached.report()["divergence"] > 0
    original = toughen.asa("original").attach(bert(num_labels=1), seed=0)
    original.backward(original.model, batch)
    assert torch.isfinite(original.report()["divergence"])


def test_added_to_other_methods():
    model = bert()
    attached = (toughen.asa(weight=1.0) + toughen.smart()).attach(model)
    total = attached.backward(model, BATCH)
    seen = attached.report()
    assert torch.allclose(total, seen["0/loss_clean"] + seen["0/term"] + seen["1/term"])
    assert {"divergence_dropout", "0/divergence_perturbation"} <= set(attached.probe())


def test_to_ask_for_the_likeliest_masks_changes_nothing_in_training():
    losses = []
    for asked in (False, True):
        model = bert()
        attached = toughen.asa(visible=0.6).attach(model, seed=3)
        if asked:
            masks = attached.attention_masks(BATCH)
        losses.append(attached.backward(model, BATCH))
    assert torch.equal(*losses)
    assert all(torch.equal(mask, attached.attention_masks(BATCH)[layer]) for layer, mask in masks.items())
    assert attached.states[0].injector.on_sample is None


def test_reentrant_checkpointing_is_refused():
    model = bert(dtype=torch.float32)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    attached = toughen.asa().attach(model)
    with pytest.raises(StepError, match="use_reentrant"):
        attached.backward(model, BATCH)
