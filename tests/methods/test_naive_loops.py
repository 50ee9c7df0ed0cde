"""Every method against a loop of plain PyTorch that a reader can check against the paper."""

import copy

import pytest
import torch
import torch.nn.functional as F

import toughen
from toughen.search import Given

from ..tiny import TOKENIZER, assert_same_gradients, bert, gradients, text_batch

BATCH = text_batch()
LABELS = BATCH["labels"]
PADDING = BATCH["attention_mask"].unsqueeze(-1).double()
WORDS = PADDING * ~torch.isin(BATCH["input_ids"], torch.tensor([0, 1, 2])).unsqueeze(-1)
NOISE = torch.randn(3, 10, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


class Naive:
    """A model whose embedding can be moved, with everything else spelled out."""

    def __init__(self):
        self.model = bert()

    def embed(self):
        return self.model.get_input_embeddings()(BATCH["input_ids"])

    def __call__(self, delta=0.0):
        return self.model(inputs_embeds=self.embed() + delta, attention_mask=BATCH["attention_mask"], labels=LABELS)

    def unit(self, mask=WORDS):
        """The l2 norm of each text's embedding over the words that may move: what a radius of 1 means."""
        return l2(self.embed().detach() * mask)

    def rms(self):
        return self.unit() / WORDS.expand_as(NOISE).sum((1, 2), keepdim=True).sqrt()


def l2(x):
    return x.flatten(1).norm(dim=1).view(-1, 1, 1)


def shrink(x, limit):
    return x * (limit / l2(x)).clamp(max=1)


def kl(target, source):
    p, q = F.log_softmax(target, -1), F.log_softmax(source, -1)
    return (p.exp() * (p - q)).sum(-1).mean()


def symmetric(a, b):
    return kl(a, b) + kl(b, a)


def gradient(height, delta):
    return torch.autograd.grad(height, delta)[0]


def plain(net):
    net().loss.backward()


def smart(net, weight=1.0):
    clean = net()
    delta = (
        0.003 * NOISE * WORDS * net.unit() / WORDS.expand_as(NOISE).sum((1, 2), keepdim=True).sqrt()
    ).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), net(delta).logits), delta) * WORDS
    delta = shrink((delta + 0.03 * net.unit() * g / l2(g)).detach(), 0.03 * net.unit())
    (clean.loss + weight * symmetric(clean.logits, net(delta).logits)).backward()


def alum(net):
    layer = net.model.bert.encoder.layer[0]
    seen = []

    def run(delta):
        hook = layer.register_forward_hook(lambda m, a, out: seen.append(out) or out + delta)
        try:
            return net()
        finally:
            hook.remove()

    clean = net()
    run(0.0)
    value = seen[0].detach()
    unit = l2(value * WORDS)
    rms = unit / WORDS.expand_as(value).sum((1, 2), keepdim=True).sqrt()
    delta = (0.003 * NOISE * WORDS * rms).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), run(delta).logits), delta) * WORDS
    delta = shrink((delta + 0.03 * unit * g / l2(g)).detach(), 0.03 * unit)
    (clean.loss + symmetric(clean.logits, run(delta).logits)).backward()


def sift(net):
    norm = net.model.bert.embeddings.LayerNorm

    def run(delta):
        def move(_module, args):
            return (args[0] + args[0].detach().std(-1, unbiased=False, keepdim=True) * delta,)

        hook = norm.register_forward_pre_hook(move)
        try:
            return net()
        finally:
            hook.remove()

    clean = net()
    size = WORDS.expand_as(NOISE).sum((1, 2), keepdim=True)  # a normalised vector's elements have mean square 1
    delta = (0.003 * NOISE * WORDS).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), run(delta).logits), delta) * WORDS
    delta = shrink((delta + 0.03 * size.sqrt() * g / l2(g)).detach(), 0.03 * size.sqrt())
    (clean.loss + symmetric(clean.logits, run(delta).logits)).backward()


def freelb(net, passes=3):
    delta = 0.01 * NOISE * WORDS
    for left in reversed(range(passes)):
        delta = delta.detach().requires_grad_()
        (net(delta).loss / passes).backward()
        if left:
            g = delta.grad * WORDS
            delta = shrink(delta.detach() + 0.02 * net.unit() * g / l2(g), 0.05 * net.unit())


def fgm(net):
    delta = torch.zeros_like(NOISE).requires_grad_()
    net(delta).loss.backward()
    g = delta.grad * WORDS
    net(0.03 * net.unit() * g / l2(g)).loss.backward()


def fgm_matrix(net):
    table = net.model.get_input_embeddings().weight
    net().loss.backward()
    before = table.detach().clone()
    with torch.no_grad():
        table += table.grad / table.grad.norm()
    net().loss.backward()
    with torch.no_grad():
        table.copy_(before)


def pgd(net):
    delta = 0.01 * NOISE * WORDS
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        g = gradient(net(delta).loss, delta) * WORDS
        delta = shrink(delta.detach() + 0.02 * net.unit() * g / l2(g), 0.05 * net.unit())
    net(delta.detach()).loss.backward()


def vat(net):
    clean = net()
    probe = (NOISE * WORDS / l2(NOISE * WORDS) * 0.003 * net.unit()).requires_grad_()
    g = gradient(kl(clean.logits.detach(), net(probe).logits), probe) * WORDS
    delta = 0.03 * net.unit() * g / l2(g)
    (clean.loss + kl(clean.logits.detach(), net(delta).logits)).backward()


def r3f(net):
    clean = net()
    (clean.loss + symmetric(clean.logits, net(0.1 * NOISE * WORDS * net.rms()).logits)).backward()


def r4f(net):
    with torch.no_grad():
        weight = net.model.classifier.weight
        weight /= torch.linalg.matrix_norm(weight, ord=2)
    r3f(net)


def rdrop(net):
    first, second = net(), net()
    (0.5 * (first.loss + second.loss) + 0.5 * symmetric(first.logits, second.logits)).backward()


def creat(net):
    def run(delta):
        out = net.model.bert(inputs_embeds=net.embed() + delta, attention_mask=BATCH["attention_mask"])
        loss = F.cross_entropy(net.model.classifier(out.pooler_output), LABELS)
        return loss, out.last_hidden_state[:, 0]

    clean, features = run(0.0)
    delta = (0.003 * NOISE * WORDS * net.rms()).requires_grad_()
    loss, moved = run(delta)
    height = loss - F.cosine_similarity(moved, features.detach(), dim=-1).mean()
    g = gradient(height, delta) * WORDS
    delta = shrink((delta + 0.03 * net.unit() * g / l2(g)).detach(), 0.03 * net.unit())
    (0.5 * clean + 0.5 * run(delta)[0]).backward()


def neftune(net):
    size = PADDING.expand_as(NOISE).sum((1, 2), keepdim=True)
    net(NOISE * PADDING * 5 / size.sqrt()).loss.backward()


def weights_uphill(net, move):
    net().loss.backward()
    model = net.model
    moves = move([(p, p.grad) for p in model.parameters() if p.grad is not None])
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for p, m in moves:
            p += m
    model.zero_grad()
    net().loss.backward()
    model.load_state_dict(before)


def sam(net):
    def move(pairs):
        total = torch.stack([g.square().sum() for _, g in pairs]).sum().sqrt()
        return [(p, 0.05 * g / total) for p, g in pairs]

    weights_uphill(net, move)


def asam(net):
    def move(pairs):
        total = torch.stack([(g * (p.abs() + 0.01)).square().sum() for p, g in pairs]).sum().sqrt()
        return [(p, 0.5 * g * (p.abs() + 0.01) ** 2 / total) for p, g in pairs]

    weights_uphill(net, move)


def awp(net):
    names = {id(p): n for n, p in net.model.named_parameters()}

    def move(pairs):
        chosen = [(p.detach(), g) for p, g in pairs if "weight" in names[id(p)]]
        moves = [(g * p.norm() / g.norm()).clamp(-0.01 * p.abs(), 0.01 * p.abs()) for p, g in chosen]
        owners = [p for p, _ in pairs if "weight" in names[id(p)]]
        return list(zip(owners, moves, strict=True))

    weights_uphill(net, move)


def bregman(net):
    # In its first update the teacher is the model itself.
    clean = net()
    (clean.loss + symmetric(clean.logits, clean.logits.detach())).backward()


def freeat(net, step):
    delta = 0.01 * NOISE * WORDS
    for left in reversed(range(3)):
        delta = delta.detach().requires_grad_()
        net(delta).loss.backward()
        if left:
            g = delta.grad * WORDS
            # The radius is that of the embedding the perturbation was started on.
            delta = shrink(delta.detach() + 0.02 * net.start_unit * g / l2(g), 0.05 * net.start_unit)
            step()


def relative_noise(scale):
    """The start of our methods in the naive loops: the same draw, in units of each text's embedding."""
    return lambda view: scale * NOISE * view.rms


def given(scale=None):
    return {"init": relative_noise(scale) if scale else lambda view: 0.01 * NOISE}


OURS = {
    "plain": (lambda: toughen.plain(), plain),
    "smart": (lambda: toughen.smart(**given(0.003)), smart),
    "alum": (lambda: toughen.alum(0, **given(0.003)), alum),
    "sift": (lambda: toughen.sift(init=lambda view: 0.003 * NOISE), sift),
    "freelb": (lambda: toughen.freelb(**given()), freelb),
    "fgm": (lambda: toughen.fgm(), fgm),
    "fgm matrix": (lambda: toughen.fgm("matrix"), fgm_matrix),
    "pgd": (lambda: toughen.pgd(**given()), pgd),
    "vat": (lambda: toughen.vat(init=lambda view: NOISE), vat),
    "r3f": (lambda: toughen.r3f(**given(0.1)), r3f),
    "r4f": (lambda: toughen.r4f(**given(0.1)), r4f),
    "rdrop": (lambda: toughen.rdrop(), rdrop),
    "creat": (lambda: toughen.creat(**given(0.003)), creat),
    "neftune": (lambda: _neftune(), neftune),
    "sam": (lambda: toughen.sam(), sam),
    "asam": (lambda: toughen.asam(), asam),
    "awp": (lambda: toughen.awp(), awp),
    "bregman": (lambda: toughen.bregman(switch=100), bregman),
}


def _neftune():
    from dataclasses import replace

    size = PADDING.expand_as(NOISE).sum((1, 2), keepdim=True)
    method = toughen.neftune()
    return replace(method, search=replace(method.search, init=Given(lambda view: NOISE * 5 / size.sqrt())))


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
@pytest.mark.parametrize("name", OURS)
def test_gradients_are_those_of_the_naive_loop(name):
    make, loop = OURS[name]
    net = Naive()
    loop(net)
    model = bert()
    with make().attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_every_method_is_in_the_table():
    elsewhere = {"freeat", "asa"}  # below; tests/asa
    assert {name.split()[0] for name in OURS} | elsewhere >= set(toughen.available())


def test_freeat_updates_between_passes():
    net = Naive()
    net.start_unit = net.unit()
    theirs = torch.optim.SGD(net.model.parameters(), lr=0.1)
    freeat(net, lambda: (theirs.step(), theirs.zero_grad()))
    model = bert()
    ours = torch.optim.SGD(model.parameters(), lr=0.1)
    with toughen.freeat(**given()).attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH, step=lambda: (ours.step(), ours.zero_grad()))
    assert_same_gradients(gradients(model), gradients(net.model))
    assert_same_gradients(dict(model.state_dict()), dict(net.model.state_dict()))


def test_the_teacher_follows_the_weights():
    """Three updates of smart + bregman by hand: the teacher is the mean of past weights, at two decays."""
    net, model = Naive(), bert()
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net.model, model))
    teacher = copy.deepcopy(net.model)
    method = toughen.smart(**given(0.003)) + toughen.bregman(weight=2.0, decay=0.9, later=0.5, switch=1)
    with method.attach(model, TOKENIZER) as attached:
        for update in range(3):
            with torch.no_grad():
                fixed = teacher(**BATCH).logits
            net.model.zero_grad()
            (2.0 * symmetric(net().logits, fixed)).backward()
            smart(net)
            theirs.step()
            decay = 0.9 if update < 1 else 0.5
            with torch.no_grad():
                for mean, weight in zip(teacher.parameters(), net.model.parameters(), strict=True):
                    mean.mul_(decay).add_(weight, alpha=1 - decay)
            ours.zero_grad()
            attached.backward(model, BATCH)
            assert_same_gradients(gradients(model), gradients(net.model))
            ours.step()


def test_a_sum_with_freelb_adds_to_its_last_pass():
    net, model = Naive(), bert()
    freelb(net)
    clean = net()
    (0.7 * symmetric(clean.logits, net(0.1 * NOISE * WORDS * net.rms()).logits)).backward()
    method = toughen.r3f(weight=0.7, **given(0.1)) + toughen.freelb(**given())
    with method.attach(model, TOKENIZER) as attached:
        attached.backward(model, BATCH)
    assert_same_gradients(gradients(model), gradients(net.model))


def test_vat_learns_from_a_batch_without_labels():
    model = bert()
    unlabelled = {k: v for k, v in BATCH.items() if k != "labels"}
    with toughen.vat().attach(model, TOKENIZER) as attached:
        loss = attached.backward(model, unlabelled)
    assert loss > 0
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0
