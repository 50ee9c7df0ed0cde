"""Every method as a loop of plain PyTorch that a reader can check against the paper.

The tests hold the engine to these gradients; the benchmark holds it to their time. They know nothing of `toughen`, work
on a BERT classifier, and take their starting noise from outside.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Naive:
    """A BERT classifier and one batch; its embedding can be moved."""

    def __init__(self, model: nn.Module, batch: dict[str, Tensor], noise: Tensor, special: list[int]) -> None:
        self.model, self.batch, self.noise = model, batch, noise
        self.padding = batch["attention_mask"].unsqueeze(-1).to(noise)
        self.words = self.padding * ~torch.isin(batch["input_ids"], noise.new_tensor(special).long()).unsqueeze(-1)

    def embed(self) -> Tensor:
        return self.model.get_input_embeddings()(self.batch["input_ids"])

    def __call__(self, delta: Any = 0.0) -> Any:
        rest = {key: value for key, value in self.batch.items() if key != "input_ids"}
        return self.model(inputs_embeds=self.embed() + delta, **rest)

    def unit(self) -> Tensor:
        """The l2 norm of each text's embedding over the words that may move: what a radius of 1 means."""
        return l2(self.embed().detach() * self.words)

    def size(self) -> Tensor:
        return self.words.expand_as(self.noise).sum((1, 2), keepdim=True)

    def rms(self) -> Tensor:
        return self.unit() / self.size().sqrt()


def l2(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1).view(-1, 1, 1)


def shrink(x: Tensor, limit: Tensor) -> Tensor:
    return x * (limit / l2(x)).clamp(max=1)


def kl(target: Tensor, source: Tensor) -> Tensor:
    p, q = F.log_softmax(target, -1), F.log_softmax(source, -1)
    return (p.exp() * (p - q)).sum(-1).mean()


def symmetric(a: Tensor, b: Tensor) -> Tensor:
    return kl(a, b) + kl(b, a)


def gradient(height: Tensor, delta: Tensor) -> Tensor:
    return torch.autograd.grad(height, delta)[0]


def plain(net: Naive) -> None:
    net().loss.backward()


def smart(net: Naive, weight: float = 1.0) -> None:
    clean, unit = net(), net.unit()
    delta = (0.001 * net.noise * net.words * unit / net.size().sqrt()).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), net(delta).logits), delta) * net.words
    delta = shrink((delta + 0.01 * unit * g / l2(g)).detach(), 0.01 * unit)
    (clean.loss + weight * symmetric(clean.logits, net(delta).logits)).backward()


def alum(net: Naive) -> None:
    layer = net.model.bert.encoder.layer[0]
    seen = []

    def run(change):
        hook = layer.register_forward_hook(lambda _module, _args, out: change(out))
        try:
            return net()
        finally:
            hook.remove()

    clean = run(lambda out: seen.append(out.detach()))
    unit = l2(seen[0] * net.words)
    rms = unit / net.size().sqrt()
    delta = (0.001 * net.noise * net.words * rms).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), run(lambda out: out + delta).logits), delta) * net.words
    found = shrink((delta + 0.01 * unit * g / l2(g)).detach(), 0.01 * unit)
    (clean.loss + symmetric(clean.logits, run(lambda out: out + found).logits)).backward()


def sift(net: Naive) -> None:
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
    size = net.size()  # a normalised vector's elements have mean square 1
    delta = (0.001 * net.noise * net.words).requires_grad_()
    g = gradient(symmetric(clean.logits.detach(), run(delta).logits), delta) * net.words
    delta = shrink((delta + 0.01 * size.sqrt() * g / l2(g)).detach(), 0.01 * size.sqrt())
    (clean.loss + symmetric(clean.logits, run(delta).logits)).backward()


def freelb(net: Naive, passes: int = 3) -> None:
    delta, unit = 0.002 * net.noise * net.words, net.unit()
    for left in reversed(range(passes)):
        delta = delta.detach().requires_grad_()
        (net(delta).loss / passes).backward()
        if left:
            g = delta.grad * net.words
            delta = shrink(delta.detach() + 0.0005 * unit * g / l2(g), 0.001 * unit)


def fgm(net: Naive) -> None:
    delta = torch.zeros_like(net.noise).requires_grad_()
    net(delta).loss.backward()
    g = delta.grad * net.words
    net(0.003 * net.unit() * g / l2(g)).loss.backward()


def fgm_matrix(net: Naive) -> None:
    table = net.model.get_input_embeddings().weight
    net().loss.backward()
    before = table.detach().clone()
    with torch.no_grad():
        table += table.grad / table.grad.norm()
    net().loss.backward()
    with torch.no_grad():
        table.copy_(before)


def pgd(net: Naive) -> None:
    delta, unit = 0.002 * net.noise * net.words, net.unit()
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        g = gradient(net(delta).loss, delta) * net.words
        delta = shrink(delta.detach() + 0.0005 * unit * g / l2(g), 0.001 * unit)
    net(delta.detach()).loss.backward()


def vat(net: Naive) -> None:
    clean, unit, start = net(), net.unit(), net.noise * net.words
    probe = (start / l2(start) * 0.001 * unit).requires_grad_()
    g = gradient(kl(clean.logits.detach(), net(probe).logits), probe) * net.words
    delta = 0.01 * unit * g / l2(g)
    (clean.loss + kl(clean.logits.detach(), net(delta).logits)).backward()


def r3f(net: Naive, scale: float = 0.1, weight: float = 3.0) -> None:
    clean = net()
    moved = net(scale * net.noise * net.words * net.rms())
    (clean.loss + weight * symmetric(clean.logits, moved.logits)).backward()


def r4f(net: Naive) -> None:
    scale_head(net)
    r3f(net, scale=0.3, weight=1.0)


def spectral(net: Naive) -> None:
    scale_head(net)
    plain(net)


def temperature(net: Naive, divisor: float = 256.0) -> None:
    F.cross_entropy(net().logits / divisor, net.batch["labels"]).backward()


@torch.no_grad()
def scale_head(net: Naive) -> None:
    weight = net.model.classifier.weight
    weight /= torch.linalg.matrix_norm(weight, ord=2)


def rdrop(net: Naive) -> None:
    first, second = net(), net()
    (0.5 * (first.loss + second.loss) + 0.5 * symmetric(first.logits, second.logits)).backward()


def typos(net: Naive, edited: dict[str, Tensor], weight: float = 1.0, clean_loss: bool = True) -> None:
    clean = net()
    (clean_loss * clean.loss + weight * kl(clean.logits.detach(), net.model(**edited).logits)).backward()


def creat(net: Naive) -> None:
    def run(delta):
        rest = {key: value for key, value in net.batch.items() if key != "input_ids"}
        out = net.model(inputs_embeds=net.embed() + delta, output_hidden_states=True, **rest)
        return out.loss, out.hidden_states[-1][:, 0]

    (clean, features), unit = run(0.0), net.unit()
    delta = (0.0003 * net.noise * net.words * unit / net.size().sqrt()).requires_grad_()
    loss, moved = run(delta)
    height = loss - F.cosine_similarity(moved, features.detach(), dim=-1).mean()
    g = gradient(height, delta) * net.words
    delta = shrink((delta + 0.003 * unit * g / l2(g)).detach(), 0.003 * unit)
    (0.5 * clean + 0.5 * run(delta)[0]).backward()


def neftune(net: Naive) -> None:
    size = net.padding.expand_as(net.noise).sum((1, 2), keepdim=True)
    net(net.noise * net.padding / size.sqrt()).loss.backward()


def weights_uphill(net: Naive, move: Any) -> None:
    net().loss.backward()
    with torch.no_grad():
        moves = move([(name, p) for name, p in net.model.named_parameters() if p.grad is not None])
        before = [p.clone() for p, _ in moves]
        for p, m in moves:
            p += m
    net.model.zero_grad()
    net().loss.backward()
    for (p, _), old in zip(moves, before, strict=True):
        p.data = old


def sam(net: Naive) -> None:
    def move(named):
        scale = 0.02 / torch.stack([p.grad.norm() for _, p in named]).norm()
        return [(p, p.grad * scale) for _, p in named]

    weights_uphill(net, move)


def asam(net: Naive) -> None:
    def move(named):
        sizes = [p.abs() + 0.01 for _, p in named]
        scaled = [p.grad * size for (_, p), size in zip(named, sizes, strict=True)]
        scale = 0.2 / torch.stack([s.norm() for s in scaled]).norm()
        return [(p, s * size * scale) for (_, p), s, size in zip(named, scaled, sizes, strict=True)]

    weights_uphill(net, move)


def awp(net: Naive) -> None:
    def one(p):
        limit = 1e-4 * p.abs()
        return (p.grad * (p.norm() / p.grad.norm())).minimum(limit).maximum(-limit)

    weights_uphill(net, lambda named: [(p, one(p)) for name, p in named if "weight" in name])


def bregman(net: Naive, teacher: nn.Module) -> None:
    """`teacher` is a copy of the model in evaluation mode; in its first update it has the model's own weights."""
    with torch.no_grad():
        for mean, p in zip(teacher.parameters(), net.model.parameters(), strict=True):
            mean.lerp_(p, 0.01)
        fixed = teacher(**net.batch).logits
    clean = net()
    (clean.loss + 0.3 * symmetric(clean.logits, fixed)).backward()


def other_words(net: Naive, table: Tensor) -> tuple[Tensor, Tensor]:
    """What each candidate adds to its token's embedding, and which candidates a word has: not its own id."""
    embedding, ids = net.model.get_input_embeddings(), net.batch["input_ids"]
    offsets = (embedding(table[ids]) - embedding(ids).unsqueeze(2)).detach()
    return offsets, (table[ids] != ids.unsqueeze(2)) & net.words.bool()


def words_flip(net: Naive, table: Tensor, share: float = 0.3) -> None:
    clean, (offsets, available) = net(), other_words(net, table)
    start = torch.zeros_like(net.noise).requires_grad_()
    g, delta = gradient(net(start).loss, start), torch.zeros_like(net.noise)
    for row in range(len(g)):
        best = []
        for place in range(g.shape[1]):
            gains = [(float(g[row, place] @ offsets[row, place, k]), k) for k in available[row, place].nonzero()[:, 0]]
            gain, k = max(gains, default=(0.0, None), key=lambda one: one[0])
            if gain > 0:
                best.append((gain, place, k))
        most = math.ceil(share * int(net.words[row].sum()))
        for _, place, k in sorted(best, key=lambda one: -one[0])[:most]:
            delta[row, place] = offsets[row, place, k]
    (clean.loss + symmetric(clean.logits, net(delta).logits)).backward()


def words_hull(net: Naive, table: Tensor, entropy: float, step: float = 10.0) -> None:
    """The goal by autograd, entropy and all: a mean over the words of a text, then over the texts."""
    clean, (offsets, available) = net(), other_words(net, table)
    there = F.pad(available, (1, 0), value=True)  # the word itself is always there
    points = F.pad(offsets, (0, 0, 1, 0))
    logits = torch.zeros_like(there, dtype=net.noise.dtype).requires_grad_()

    def weights() -> Tensor:
        return logits.masked_fill(~there, -1e9).softmax(-1)

    p = weights()
    moved = net((p.unsqueeze(-1) * points).sum(2))
    spread = -(p * p.clamp(min=1e-300).log()).sum(-1)
    movable = available.any(-1)
    height = symmetric(clean.logits.detach(), moved.logits)
    height = height - entropy * ((spread * movable).sum(1) / movable.sum(1).clamp(min=1)).mean()
    g = gradient(height, logits)
    with torch.no_grad():
        logits += step * g / g.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    delta = (weights().detach().unsqueeze(-1) * points).sum(2)
    (clean.loss + symmetric(clean.logits, net(delta).logits)).backward()


def freeat(net: Naive, step: Any) -> None:
    unit = net.unit()
    delta = 0.002 * net.noise * net.words
    for left in reversed(range(2)):
        delta = delta.detach().requires_grad_()
        net(delta).loss.backward()
        if left:
            g = delta.grad * net.words
            # The radius is that of the embedding the perturbation was started on: the table moves with each step.
            delta = shrink(delta.detach() + 0.0005 * unit * g / l2(g), 0.001 * unit)
            step()
