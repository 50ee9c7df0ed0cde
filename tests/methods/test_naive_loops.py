"""Every method against a loop of plain PyTorch (benchmarks/naive.py)."""

import copy
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

import toughen
from benchmarks import naive, seed_loops
from benchmarks.naive import Naive, l2, symmetric
from toughen.combine.single_pass import Average
from toughen.compare.ema_teacher import EmaTeacher
from toughen.engine.text_views import split_views, stack_texts
from toughen.search import CustomInit

from ..tiny import LETTERS, LIKE_TYPOS, TOKENIZER, assert_same_gradients, bert, gradients, text_batch

BATCH = text_batch()
NOISE = torch.randn(3, 10, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

# Up to four others for each token; every third token has fewer, and every seventh none.
IDS = torch.arange(100).unsqueeze(1)
TABLE = torch.where(
    (IDS % 7 == 0) | ((IDS % 3 == 0) & (torch.arange(4) > 1)), IDS, (IDS * 13 + 17 * torch.arange(1, 5)) % 100
)


def table_of(_tokenizer, _model):
    return TABLE


# The same with words of the tokenizer LETTERS.
WORDS = {**BATCH, "input_ids": BATCH["input_ids"].where(BATCH["input_ids"] < 5, 25 + BATCH["input_ids"] % 23)}


def naive_bert(batch=BATCH):
    return Naive(bert(), batch, NOISE, TOKENIZER.all_special_ids)


def relative_noise(scale):
    """The start of our methods in the naive loops: the same draw, in units of each text's embedding."""
    return lambda view: scale * NOISE * view.rms


def given(scale=None):
    return {"init": relative_noise(scale) if scale else lambda view: 0.002 * NOISE}


OURS = {
    "plain": (lambda: toughen.plain(), naive.plain),
    "smart": (lambda: toughen.smart(**given(0.001)), naive.smart),
    "alum": (lambda: toughen.alum(0, **given(0.001)), naive.alum),
    "sift": (lambda: toughen.sift(init=lambda view: 0.001 * NOISE), naive.sift),
    "freelb": (lambda: toughen.freelb(**given()), naive.freelb),
    "fgm": (lambda: toughen.fgm(), naive.fgm),
    "fgm matrix": (lambda: toughen.fgm("matrix"), naive.fgm_matrix),
    "pgd": (lambda: toughen.pgd(**given()), naive.pgd),
    "vat": (lambda: toughen.vat(init=lambda view: NOISE), naive.vat),
    "r3f": (lambda: toughen.r3f(**given(0.1)), naive.r3f),
    "r4f": (lambda: toughen.r4f(**given(0.3)), naive.r4f),
    "spectral": (lambda: toughen.spectral(), naive.spectral),
    "temperature": (lambda: toughen.temperature(), naive.temperature),
    "rdrop": (lambda: toughen.rdrop(), naive.rdrop),
    "creat": (lambda: toughen.creat(**given(0.0003)), naive.creat),
    "neftune": (lambda: _neftune(), naive.neftune),
    "sam": (lambda: toughen.sam(), naive.sam),
    "asam": (lambda: toughen.asam(), naive.asam),
    "awp": (lambda: toughen.awp(), naive.awp),
    "words": (lambda: toughen.words(noise=0.0, candidates=table_of), lambda net: naive.words_flip(net, TABLE)),
    "words hull": (
        lambda: toughen.words("hull", noise=0.0, entropy=0.05, candidates=table_of),
        lambda net: naive.words_hull(net, TABLE, 0.05),
    ),
    "bregman": (
        lambda: toughen.bregman(switch_at=100),
        lambda net: naive.bregman(net, copy.deepcopy(net.model).eval()),
    ),
}


def _neftune():
    size = BATCH["attention_mask"].sum(1).view(-1, 1, 1) * 32
    method = toughen.neftune()
    return replace(method, search=replace(method.search, init=CustomInit(lambda view: NOISE / size.sqrt())))


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
@pytest.mark.parametrize("name", OURS)
def test_gradients_are_those_of_the_naive_loop(name):
    make, loop = OURS[name]
    net = naive_bert()
    loop(net)
    model = bert()
    with make().attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_every_method_is_in_the_table():
    elsewhere = {"freeat", "typos", "asa", *LIKE_TYPOS}  # below; tests/asa; one edit of texts stands for all
    assert {name.split()[0] for name in OURS} | elsewhere >= set(toughen.list_methods())


SEEDS = {
    "smart": (1e-5 * NOISE, lambda start: toughen.smart("smart-pytorch", init=lambda view: start.clone())),
    "sift": (1e-2 * NOISE, lambda start: toughen.sift("deberta", init=lambda view: start.clone())),
    "freelb": (
        2e-2 * NOISE * BATCH["attention_mask"].unsqueeze(-1),
        lambda start: toughen.freelb("original", step_size=4e-2, max_norm=2e-1, init=lambda view: start.clone()),
    ),
    "asa": (None, lambda _: toughen.asa("original")),
}


@pytest.mark.parametrize("name", SEEDS)
def test_the_loops_that_people_copy_are_the_presets(name):
    """What `benchmarks/step_time.py --against seeds` takes the time of."""
    start, make = SEEDS[name]
    model, loop = bert(), seed_loops.LOOPS[name](bert())
    # At this seed no adversary hides all keys of a query: there ASA's BERT zeroes logits, which the loop does not.
    with make(start).attach(model, seed=5) as attached:
        if name == "asa":
            for n, (query, key) in enumerate(loop.adversaries):
                query.load_state_dict(attached.adversary[str(n)].query.state_dict())
                key.load_state_dict(attached.adversary[str(n)].key.state_dict())
        attached.backward(model, BATCH)
    loop(BATCH, start)
    assert_same_gradients(gradients(model), gradients(loop.model))


def edited(method, model):
    """The view that a method makes of the batch, as the inputs of a model."""
    with method.attach(model, LETTERS, seed=3) as attached:
        (views,) = split_views(attached.add_views(WORDS))[1].values()
    assert views.pop("counts")[:, 1].sum() > 0
    return {**WORDS, **{name: value[:, 0] for name, value in views.items()}}


@pytest.mark.parametrize("learn", ["prediction", "label", "both"])
def test_typos_are_a_second_pass_over_edited_text(learn):
    method, net, model = toughen.typos(rate=1.0, learn=learn, weight=0.7), naive_bert(WORDS), bert()
    view = edited(method, bert())
    if learn == "prediction":
        naive.typos(net, view, weight=0.7)
    else:
        clean, other = net(), net.model(**view)
        kl = 0.7 * naive.kl(clean.logits.detach(), other.logits)
        loss = clean.loss + 0.7 * other.loss if learn == "label" else 0.5 * (clean.loss + other.loss) + kl
        loss.backward()
    with method.attach(model, LETTERS, seed=3) as attached:
        attached.backward(model, WORDS)
    assert_same_gradients(gradients(model), gradients(net.model))


@pytest.mark.parametrize("on", ["clean", "view", "both"])
def test_beside_typos_r3f_perturbs_the_texts_it_is_told(on):
    """Noise on the clean texts, on their views, or on both in one batch; each against its own unperturbed pass."""
    typos, net, model = toughen.typos(rate=1.0, on=on), naive_bert(WORDS), bert()
    view = edited(typos, bert())
    wide = view["input_ids"].shape[1]
    noise = {"clean": NOISE, "view": NOISE[:, :1].expand(-1, wide, -1)}
    clean, other = net(), net.model(**view)
    loss = clean.loss + naive.kl(clean.logits.detach(), other.logits)
    texts = {"clean": (WORDS, clean), "view": (view, other)}
    terms = []
    for name in texts if on == "both" else (on,):
        batch, outcome = texts[name]
        moved = Naive(net.model, batch, noise[name], LETTERS.all_special_ids)
        terms.append(symmetric(outcome.logits, moved(0.1 * noise[name] * moved.words * moved.rms()).logits))
    (loss + 3.0 * torch.stack(terms).mean()).backward()

    def start(view):
        width = view.value.shape[1]
        parts = [torch.nn.functional.pad(each, (0, 0, 0, width - each.shape[1])) for each in noise.values()]
        drawn = torch.cat(parts) if on == "both" else noise[on]
        return 0.1 * drawn * view.rms

    with (typos + toughen.r3f(init=start)).attach(model, LETTERS, seed=3) as attached:
        attached.backward(model, WORDS)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_freelb_trains_on_both_texts():
    """Its loss is the mean over texts and views, and the ascent moves both."""
    typos, net, model = toughen.typos(rate=1.0, on="both"), naive_bert(WORDS), bert()
    view = edited(typos, bert())
    batch = stack_texts(WORDS, view, 0, "right")
    assert batch["input_ids"].shape == (6, max(10, view["input_ids"].shape[1]))
    noise = torch.randn(*batch["input_ids"].shape, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    naive.freelb(Naive(net.model, batch, noise, LETTERS.all_special_ids))
    naive.typos(net, view, clean_loss=False)
    with (typos + toughen.freelb(init=lambda view: 0.002 * noise)).attach(model, LETTERS, seed=3) as attached:
        attached.backward(model, WORDS)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_the_worst_of_several_views_is_the_one_that_moves_the_prediction_most():
    net, model = naive_bert(WORDS), bert()
    method = toughen.typos(rate=1.0, worst_of=3)
    with method.attach(model, LETTERS, seed=3) as attached:
        (views,) = split_views(attached.add_views(WORDS))[1].values()
        attached.backward(model, WORDS)
        assert attached.report()["forwards"] == 5
    clean = net()
    passes = [
        net.model(input_ids=views["input_ids"][:, i], attention_mask=views["attention_mask"][:, i]) for i in range(3)
    ]
    rows = [
        torch.stack([naive.kl(clean.logits[row : row + 1], one.logits[row : row + 1]) for row in range(3)])
        for one in passes
    ]
    worst = torch.stack(rows).max(0).values
    (
        clean.loss
        + torch.stack(
            [
                naive.kl(clean.logits[row : row + 1].detach(), passes[number].logits[row : row + 1])
                for row, number in enumerate(torch.stack(rows).argmax(0).tolist())
            ]
        ).mean()
    ).backward()
    assert attached.report()["term"].item() == pytest.approx(worst.mean().item(), rel=1e-9)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_freeat_updates_between_passes():
    net = naive_bert()
    theirs = torch.optim.SGD(net.model.parameters(), lr=0.1)
    naive.freeat(net, lambda: (theirs.step(), theirs.zero_grad()))
    model = bert()
    ours = torch.optim.SGD(model.parameters(), lr=0.1)
    with toughen.freeat(**given()).attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH, step=lambda: (ours.step(), ours.zero_grad()))
    assert_same_gradients(gradients(model), gradients(net.model))
    assert_same_gradients(dict(model.state_dict()), dict(net.model.state_dict()))


def test_the_teacher_follows_the_weights():
    """Three updates of smart + bregman by hand: the teacher is the mean of past weights, at two decays."""
    net, model = naive_bert(), bert()
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net.model, model))
    teacher = copy.deepcopy(net.model)
    method = toughen.smart(**given(0.001)) + toughen.bregman(weight=2.0, decay=0.9, final_decay=0.5, switch_at=1)
    with method.attach(model, TOKENIZER) as attached:
        for update in range(3):
            with torch.no_grad():
                fixed = teacher(**BATCH).logits
            net.model.zero_grad()
            (2.0 * symmetric(net().logits, fixed)).backward()
            naive.smart(net)
            theirs.step()
            decay = 0.9 if update < 1 else 0.5
            with torch.no_grad():
                for mean, weight in zip(teacher.parameters(), net.model.parameters(), strict=True):
                    mean.mul_(decay).add_(weight, alpha=1 - decay)
            ours.zero_grad()
            attached.backward(model, BATCH)
            assert_same_gradients(gradients(model), gradients(net.model))
            ours.step()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_teacher_of_a_half_precision_model_moves(dtype):
    """A thousandth of the way to weights that are one per cent away: half precision would round it off, every time."""
    model = bert(dtype)
    start = model.classifier.weight.detach().double()
    with toughen.bregman(decay=0.999, switch_at=100).attach(model, TOKENIZER) as attached:
        for update in range(20):
            attached.backward(model, BATCH)
            if update == 0:
                with torch.no_grad():
                    model.classifier.weight.mul_(1.01)
        moved = (model.classifier.weight.detach().double() - start) * (1 - 0.999**19)
        teacher = attached.states[0].ema
        mean = next(m for m, w in zip(teacher.mean, teacher.weights, strict=True) if w is model.classifier.weight)
        torch.testing.assert_close(mean.double() - start, moved, rtol=0.02, atol=1e-5)
        with teacher.applied():
            assert model.classifier.weight.dtype == dtype


def test_the_teacher_keeps_to_its_weights_when_others_are_trained():
    """One layer is frozen and the other thawed after the first update: both have weights of the same shapes."""
    model = bert()
    first, second = (list(layer.parameters()) for layer in model.bert.encoder.layer)
    before = [weight.detach().clone() for weight in first + second]
    for weight in second:
        weight.requires_grad_(False)
    with toughen.bregman(decay=0.9, switch_at=100).attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
        with torch.no_grad():
            for weight in first + second:
                weight += 1.0
        for weight, other in zip(first, second, strict=True):
            weight.requires_grad_(False)
            other.requires_grad_()
        attached.backward(model, BATCH)
        teacher = attached.states[0].ema
        with teacher.applied():
            for weight, start in zip(first, before, strict=False):
                torch.testing.assert_close(weight, start + 0.1)
        for weight, start in zip(first + second, before, strict=True):
            torch.testing.assert_close(weight.detach(), start + 1.0)


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
def test_a_teacher_follows_the_scaled_head_whatever_stands_first():
    """The passes are made with a head of spectral norm 1, so its means are of such heads, too."""
    one, other = toughen.bregman(switch_at=100), toughen.r4f(**given(0.3))
    found = []
    for method in (one + other, other + one):
        model = bert()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with method.attach(model, TOKENIZER) as attached:
            for _ in range(2):
                optimizer.step()
                optimizer.zero_grad()
                attached.backward(model, BATCH)
            head, weights = model.classifier.weight, next(one.ema for one in attached.states if one.ema)
            with weights.applied():
                torch.testing.assert_close(torch.linalg.matrix_norm(head, 2).item(), 1.0, rtol=1e-2, atol=0)
        found.append(gradients(model))
    assert_same_gradients(*found)


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
@pytest.mark.parametrize("name", ["sam", "freeat", "fgm matrix", "freelb"])
def test_the_loss_that_is_told_is_that_of_the_update(name):
    """Of passes that only show the way, or that an update of their own came after, nothing is told."""
    model, losses = bert(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward(loss):
        losses.append(loss.item())
        loss.backward()

    with OURS.get(name, (lambda: toughen.freeat(steps=3),))[0]().attach(model, TOKENIZER) as attached:
        told = attached.backward(model, BATCH, backward=backward, step=optimizer.step)
    counted = losses[-1:] if name in ("sam", "freeat") else losses
    assert len(losses) > 1
    assert told.item() == pytest.approx(sum(counted), rel=1e-12)


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
@pytest.mark.parametrize(
    ("name", "last", "passes"), [("smart", True, 1), ("freelb", True, 2), ("freelb", False, 3), ("sam", True, 0)]
)
def test_passes_that_exchange_nothing(name, last, passes):
    """Searches, and all backward passes but the last of an update: each exchange would cost as much as a step's."""
    model, entered = bert(), []

    @contextmanager
    def no_sync():
        entered.append(1)
        yield

    model.no_sync = no_sync
    with OURS[name][0]().attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH, last=last)
    assert len(entered) == passes


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
def test_a_comparison_of_ones_own_is_with_the_clean_pass_unless_it_says_otherwise():
    model, seen = bert(), []

    def compare(perturbed, clean, deltas):
        seen.append(clean)
        return perturbed.loss

    with replace(toughen.r3f(**given(0.1)), compare=compare).attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert seen[0] is not None


def test_what_came_from_the_gradient_is_told_from_noise():
    shares = []
    for name in ("r3f", "smart"):
        model = bert()
        with OURS[name][0]().attach(model, TOKENIZER) as attached:
            attached.backward(model, BATCH)
            shares.append(attached.report()["delta_from_gradient"].item())
    assert shares[0] == pytest.approx(0, abs=1e-9)
    assert 0.1 < shares[1] < 0.99  # the start is a tenth of the way


def test_freelb_against_a_teacher():
    """It makes no clean pass, and a teacher's takes that one's place."""
    model = bert()
    method = replace(toughen.freelb(**given()), compare=toughen.bregman().compare, reference=EmaTeacher(switch_at=100))
    with method.attach(model, TOKENIZER) as attached:
        assert attached.backward(model, BATCH).isfinite()


def test_a_sum_with_freelb_adds_to_its_last_pass():
    net, model = naive_bert(), bert()
    naive.freelb(net)
    clean = net()
    (0.7 * symmetric(clean.logits, net(0.1 * NOISE * net.words * net.rms()).logits)).backward()
    method = toughen.r3f(weight=0.7, **given(0.1)) + toughen.freelb(**given())
    with method.attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_beside_freelb_rdrop_is_its_divergence_alone():
    """There is no clean loss that the mean of its two could replace: half of one was taken away."""
    net, model = naive_bert(), bert()
    for dropping in (net.model, model):
        dropping.dropout.p = 0.3
    torch.manual_seed(2)
    naive.freelb(net, passes=1)
    (0.25 * symmetric(net().logits, net().logits)).backward()
    torch.manual_seed(2)
    with (toughen.freelb(steps=1, **given()) + toughen.rdrop(0.5)).attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert_same_gradients(gradients(model), gradients(net.model))


@pytest.mark.parametrize("first", ["plain", "average"])
def test_beside_a_clean_loss_rdrop_puts_the_mean_of_its_two_in_its_place(first):
    """Also where another method gives that loss: without a share of the perturbed one it is R-Drop's own."""
    given_by = {"plain": toughen.plain(), "average": replace(toughen.creat(**given(0.0003)), combine=Average(0.0))}
    found = []
    for method in (toughen.rdrop(0.5), given_by[first] + toughen.rdrop(0.5)):
        model = bert()
        model.dropout.p = 0.3
        torch.manual_seed(2)
        with method.attach(model, TOKENIZER) as attached:
            attached.backward(model, BATCH)
        found.append(gradients(model))
    assert_same_gradients(*found)


def test_vat_of_a_regression_has_a_fixed_target_too():
    batch = {**BATCH, "labels": torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)}
    net, model = Naive(bert(num_labels=1), batch, NOISE, TOKENIZER.all_special_ids), bert(num_labels=1)
    clean, unit, start = net(), net.unit(), NOISE * net.words
    target = clean.logits.detach()
    probe = (start / l2(start) * 0.001 * unit).requires_grad_()
    (g,) = torch.autograd.grad((net(probe).logits - target).square().mean(), probe)
    g = g * net.words
    (clean.loss + (net(0.01 * unit * g / l2(g)).logits - target).square().mean()).backward()
    with toughen.vat(init=lambda view: NOISE).attach(model, TOKENIZER) as attached:
        attached.backward(model, batch)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_vat_learns_from_a_batch_without_labels():
    model = bert()
    unlabelled = {k: v for k, v in BATCH.items() if k != "labels"}
    with toughen.vat().attach(model, TOKENIZER) as attached:
        loss = attached.backward(model, unlabelled)
    assert loss > 0
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_in_a_sum_vat_learns_from_a_batch_without_labels_wherever_it_stands():
    unlabelled = {k: v for k, v in BATCH.items() if k != "labels"}
    smart, vat = toughen.smart(**given(0.001)), toughen.vat(init=lambda view: NOISE)
    found = []
    for method in (vat + smart, smart + vat):
        model = bert()
        with method.attach(model, TOKENIZER) as attached:
            attached.backward(model, unlabelled)
        found.append(gradients(model))
    assert_same_gradients(*found)
