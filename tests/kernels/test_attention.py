"""The attention kernels, interpreted on a CPU, against attention written out."""

import pytest
import torch

from toughen.kernels import attention

from .interpreted import interpreter, needed

pytestmark = [needed, pytest.mark.usefixtures("interpreter")]
__all__ = ["interpreter"]
LOW = -16384.0  # the kernels' least logit


def keeps(words, drawn, dropout):
    """Which pairs dropout keeps, from the random words of queries and keys, in 64-bit integers."""
    product = (words.long()[..., None] * drawn[2:].long()) & (2**32 - 1)
    return torch.where(product >= 2**31, product - 2**32, product) >= round(dropout * 2**32) - 2**31


def written_out(query, key, value, mask, scale, keep=None, dropout=0.0):
    logits = query.double() @ key.double().mT * scale
    if mask is not None:
        if mask.dtype == torch.bool:
            logits = logits.masked_fill(~mask, LOW)
        else:  # a logit that is raised to the least keeps its derivative
            raised = (logits + mask).clamp(min=LOW).detach()
            logits = raised + (logits - logits.detach()) + (mask - mask.detach())
    weights = logits.softmax(-1)
    if keep is not None:
        weights = weights * keep / (1 - dropout)
    return (weights @ value.double()).transpose(1, 2)


def inputs(batch, heads, length, width, dtype=torch.float32):
    torch.manual_seed(length + width)
    laid = torch.randn(batch, length, heads, 3, width, dtype=dtype)  # as one projection leaves them
    return [laid[:, :, :, i].transpose(1, 2).requires_grad_() for i in range(3)]


def hidden(batch, length, dtype=torch.float32, masks=1):
    """A third of the pairs is hidden, and so is a whole row."""
    mask = torch.zeros(batch, masks, length, length, dtype=dtype)
    mask.masked_fill_(torch.rand(mask.shape) < 0.3, torch.finfo(dtype).min)
    mask[0, 0, 3] = torch.finfo(dtype).min
    return mask.requires_grad_()


def close(ours, theirs, tolerance):
    assert torch.isfinite(ours).all()
    assert (ours.double() - theirs.double()).norm() <= tolerance * theirs.double().norm()


SHAPES = [(2, 3, 16, 16), (2, 2, 40, 16), (1, 2, 128, 64), (1, 2, 150, 32), (1, 1, 70, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dropout", "per_head"), [(0.0, False), (0.3, False), (0.3, True)])
def test_a_mask_and_its_gradient(shape, dropout, per_head):
    query, key, value = inputs(*shape)
    mask = hidden(shape[0], shape[2], masks=shape[1] if per_head else 1)
    out, _, *words = attention._attend(query, key, value, mask, 0.3, dropout)
    keep = keeps(*words, dropout) if dropout else None
    expected = written_out(query, key, value, mask, 0.3, keep, dropout)
    close(out, expected, 1e-6)
    grad = torch.randn_like(out)
    ours = torch.autograd.grad(out, (query, key, value, mask), grad)
    theirs = torch.autograd.grad(expected, (query, key, value, mask), grad.double())
    assert ours[3].shape == mask.shape
    for mine, reference in zip(ours, theirs, strict=True):
        close(mine, reference, 1e-4)


@pytest.mark.parametrize("kind", ["none", "padding", "causal"])
def test_the_models_own_masks(kind):
    query, key, value = inputs(2, 2, 50, 16, torch.float16)
    padding = (torch.arange(50) < torch.tensor([[50], [20]])).view(2, 1, 1, 50).expand(2, 1, 50, 50)
    mask = {"none": None, "padding": padding, "causal": torch.ones(1, 1, 50, 50, dtype=torch.bool).tril()}[kind]
    out = attention.attend(query, key, value, mask, 0.25, 0.0)
    expected = written_out(query, key, value, mask, 0.25)
    assert out.dtype == torch.float16
    close(out, expected, 2e-3)
    grad = torch.randn_like(out)
    for mine, reference in zip(
        torch.autograd.grad(out, (query, key, value), grad),
        torch.autograd.grad(expected, (query, key, value), grad.double()),
        strict=True,
    ):
        close(mine, reference, 5e-3)


def test_dropout_is_drawn_from_the_default_generator():
    """The same state drops the same pairs under any mask, the next draw others; rows, heads and texts differ."""
    query, key, value = inputs(2, 2, 64, 16)
    mask = hidden(2, 64)
    torch.manual_seed(5)
    found = [attention._attend(query, key, value, m, 0.2, 0.1)[2] for m in (mask, None)]
    after = torch.get_rng_state()
    torch.manual_seed(5)
    again = attention._attend(query, key, value, None, 0.2, 0.1)[2]
    assert torch.equal(found[0], again)
    assert not torch.equal(found[0], found[1])
    attention._attend(query, key, value, mask, 0.2, 0.1)
    assert torch.equal(after, torch.get_rng_state())
    assert found[0].unique().numel() == found[0].numel()


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_is_fair(dropout):
    """Shares of rows, columns and neighbours are those of independent draws."""
    torch.manual_seed(0)
    kept = keeps(*(torch.randint(-(2**31), 2**31, (n,)) for n in (2000, 402)), dropout).double()
    deviation = (dropout * (1 - dropout)) ** 0.5
    assert abs(kept.mean() - (1 - dropout)) < 4 * deviation / kept.numel() ** 0.5
    for dim in (0, 1):
        spread = kept.mean(dim).std() * kept.shape[dim] ** 0.5
        assert spread == pytest.approx(deviation, rel=0.12)
    centred = (kept - (1 - dropout)) / deviation
    for step in (1, 2, 3, 16):
        for first, second in ((centred[:, step:], centred[:, :-step]), (centred[step:], centred[:-step])):
            assert abs((first * second).mean()) < 4 / first.numel() ** 0.5
    blocks = centred.view(500, 4, 100, 4).sum((1, 3)) / 4  # sixteen at a time
    assert blocks.var() == pytest.approx(1.0, abs=0.03)


def test_the_mean_over_draws_is_attention_without_dropout():
    query, key, value = inputs(1, 1, 16, 16)
    torch.manual_seed(1)
    draws = [attention.attend(query, key, value, None, 0.3, 0.2).detach() for _ in range(60)]
    mean, spread = torch.stack(draws).mean(0), torch.stack(draws).std(0) / 60**0.5
    expected = written_out(query, key, value, None, 0.3)
    assert ((mean - expected).abs() < 5 * spread).all()


def test_all_dropped():
    query, key, value = inputs(1, 2, 16, 16)
    out = attention.attend(query, key, value, None, 0.3, 1.0)
    assert not out.any()
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), (query, key, value)))


def test_where_it_fits(monkeypatch):
    query, key, value = inputs(2, 2, 16, 16, torch.float16)
    assert not attention.fits(query, key, value, None), "a CPU"
    monkeypatch.setattr(attention, "supports", lambda _: True)
    mask = hidden(2, 16, torch.float16)
    seen = torch.ones(2, 1, 1, 16, dtype=torch.bool)
    for fine in (None, mask, mask.expand(2, 2, 16, 16), seen, seen.expand(2, 2, 16, 16)):
        assert attention.fits(query, key, value, fine)
    for odd in (mask.float(), mask[:1], seen[..., :8], seen[0]):
        assert not attention.fits(query, key, value, odd)
    assert not attention.fits(query, key[:, :1], value[:, :1], None), "grouped keys"
    assert not attention.fits(query[..., :8], key[..., :8], value[..., :8], None), "a head of 8"


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_compiled(dropout):
    query, key, value = inputs(1, 2, 20, 16)
    mask = hidden(1, 20)

    def layer(query, key, value, mask):
        return attention.attend(2 * query, key, value, mask, 0.3, dropout).flatten(2).cos()

    found = []
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(3)
        out = run(query, key, value, mask)
        found.append((out, *torch.autograd.grad(out.sum(), (query, key, value, mask))))
    for mine, reference in zip(*found, strict=True):
        close(mine, reference, 1e-6)
