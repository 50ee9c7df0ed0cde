"""Pooling and head: masks, naive references, fusions, every choice."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from toughen.heads import (
    PRESETS,
    AveragePooling,
    CovariancePooling,
    CrossCovariance,
    HeadSettings,
    MultiHeadPooling,
    SecondOrderHead,
    cross_covariance,
    head_settings,
    matrix_square_root,
)
from toughen.heads.covariance import MaskedBatchNorm


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mask_of(*lengths, width=7):
    return (torch.arange(width) < torch.tensor(lengths)[:, None]).long()


@pytest.mark.parametrize("center", ["channel", "scalar", "none"])
def test_cross_covariance_equals_a_loop_over_real_tokens(center):
    a, b, mask = draw(3, 7, 4), draw(3, 7, 2, seed=1), mask_of(7, 4, 1)
    out = cross_covariance(a, b, mask, center=center)
    for row in range(3):
        x, y = a[row, mask[row] == 1], b[row, mask[row] == 1]
        if center == "channel":
            x, y = x - x.mean(0), y - y.mean(0)
        elif center == "scalar":
            x, y = x - x.mean(), y - y.mean()
        torch.testing.assert_close(out[row], sum(torch.outer(p, r) for p, r in zip(x, y, strict=True)) / len(x))


def test_masked_tokens_have_no_influence():
    a, b, mask = draw(3, 7, 4).requires_grad_(), draw(3, 7, 2), mask_of(7, 4, 0)
    cross_covariance(a, b, mask).square().sum().backward()
    assert not a.grad[mask == 0].any()
    assert a.grad.isfinite().all()


def test_cross_covariance_gradients():
    mask = mask_of(7, 4, 1)
    a, b = draw(3, 7, 3).requires_grad_(), draw(3, 7, 2, seed=2).requires_grad_()
    assert gradcheck(lambda a, b: cross_covariance(a, b, mask), (a, b))


@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("center", ["channel", "scalar"])
@pytest.mark.parametrize("heads", [1, 3])
def test_projections_equal_a_naive_pass(norm, center, heads):
    torch.manual_seed(0)
    module = CrossCovariance(5, 4, 2, heads=heads, norm=norm, center=center).double().eval()
    x, mask = draw(3, 7, 5), mask_of(7, 4, 1)
    out = module(x, mask)
    projected = x @ module.projection.weight.mT + module.projection.bias
    if norm == "batch":
        projected = projected / (1 + 1e-5) ** 0.5
    for head in range(heads):
        q = projected[..., head * 4 : head * 4 + 4]
        k = projected[..., heads * 4 + head * 2 : heads * 4 + head * 2 + 2]
        if norm == "layer":
            q, k = F.layer_norm(q, (4,)), F.layer_norm(k, (2,))
        torch.testing.assert_close(out[:, head], cross_covariance(q.relu(), k.relu(), mask, center=center))


@pytest.mark.parametrize("preset", [None, "original-text", "original-vision", "isqrt"])
def test_pooling_gradients(preset):
    torch.manual_seed(0)
    sizes = {"q": 3, "k": 3, "heads": 2}
    cls = CovariancePooling if preset == "isqrt" else MultiHeadPooling
    pool = cls(4, head_settings(preset, **sizes)).double().eval()
    x = draw(2, 6, 4).requires_grad_()
    assert gradcheck(lambda x: pool(x, mask_of(6, 3, width=6)), (x,))


def test_batch_norm_sees_real_tokens_only():
    x, mask = draw(3, 7, 4), mask_of(7, 4, 1)
    ours, theirs = MaskedBatchNorm(4).double(), torch.nn.BatchNorm1d(4).double()
    with torch.no_grad():
        ours.weight.copy_(draw(4))
        theirs.weight.copy_(draw(4))
    first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = ours(first, mask)[mask == 1], theirs(second[mask == 1])
    torch.testing.assert_close(out, expected)
    out.square().mul(draw(12, 4)).sum().backward()
    expected.square().mul(draw(12, 4)).sum().backward()
    torch.testing.assert_close(first.grad, second.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    for name, value in theirs.named_buffers():
        torch.testing.assert_close(ours.get_buffer(name), value)
    torch.testing.assert_close(ours.eval()(x, mask), theirs.eval()(x.flatten(0, 1)).view_as(x))


def test_covariance_pooling_is_the_root_of_the_covariance():
    torch.manual_seed(0)
    pool = CovariancePooling(5, q=3).double()
    x, mask = draw(2, 7, 5), mask_of(7, 4)
    root = matrix_square_root(pool.covariance(x, mask))[:, 0]
    rows, columns = torch.triu_indices(3, 3)
    torch.testing.assert_close(pool(x, mask), root[:, rows, columns])
    assert pool.width == 6


def test_average_pooling():
    x, mask = draw(2, 7, 5), mask_of(7, 4)
    torch.testing.assert_close(AveragePooling(5)(x, mask), torch.stack([x[0].mean(0), x[1, :4].mean(0)]))


CHOICES = [
    {},
    {"fusion": "concat"},
    {"fusion": "aggre_all"},
    {"norm": "layer", "heads": 2},
    {"norm": "batch"},
    {"preset": "isqrt"},
    {"pooling": "covariance", "normalization": "svpn"},
    {"pooling": "average"},
    {"pooling": "average", "fusion": "concat"},
    {"pooling": "class"},
    {"normalization": "none"},
    {"exact": True, "singular_values": 2},
    {"start": "fixed", "iterations": 3, "singular_values": 2},
    {"preset": "original-vision", "masked": True},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_ignores_padding_and_the_rest_of_the_batch(choice):
    torch.manual_seed(0)
    head = SecondOrderHead(5, 3, **{"q": 4, "k": 3, "dropout": 0.0, **choice}).double().eval()
    x, mask = draw(4, 7, 5), mask_of(7, 4, 2, 1)
    logits = head(x, mask)
    assert logits.shape == (4, 3)
    longer = torch.cat([x, draw(4, 5, 5, seed=9)], 1)
    torch.testing.assert_close(head(longer, F.pad(mask, (0, 5))), logits)
    for row in range(4):
        length = int(mask[row].sum())
        torch.testing.assert_close(head(x[row : row + 1, :length]), logits[row : row + 1])


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("what", ["zero", "one token", "equal tokens", "low rank"])
def test_gradients_are_finite(choice, what):
    torch.manual_seed(0)
    head = SecondOrderHead(5, 3, **{"q": 4, "k": 3, "dropout": 0.0, **choice}).train()
    x = (
        {
            "zero": torch.zeros(3, 7, 5),
            "one token": draw(3, 7, 5).float(),
            "equal tokens": draw(3, 1, 5).float().expand(3, 7, 5),
            "low rank": draw(3, 7, 1).float() @ draw(1, 5).float(),
        }[what]
        .clone()
        .requires_grad_()
    )
    mask = mask_of(2, 1, 7) if what == "one token" else None
    head(x, mask).square().sum().backward()
    assert x.grad.isfinite().all()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_class_index_and_class_vector_agree():
    torch.manual_seed(0)
    head = SecondOrderHead(5, 3, q=4, k=3, dropout=0.0).double()
    x, mask, last = draw(2, 7, 5), mask_of(7, 4), torch.tensor([6, 3])
    moved = torch.stack([x[0].roll(1, 0), torch.cat([x[1, 3:4], x[1, :3], x[1, 4:]])])
    torch.testing.assert_close(head(x, mask, class_index=last), head(moved, mask))
    words = mask.scatter(1, last[:, None], 0)
    torch.testing.assert_close(head(x, mask, class_index=last), head(x, words, class_vector=x[torch.arange(2), last]))


def test_sum_loss_returns_the_two_parts_of_sum_fc():
    torch.manual_seed(0)
    both = SecondOrderHead(5, 3, q=4, k=3, fusion="sum_loss").double().eval()
    summed = SecondOrderHead(5, 3, q=4, k=3).double().eval()
    summed.load_state_dict(both.state_dict())
    x = draw(2, 7, 5)
    torch.testing.assert_close(sum(both(x)), summed(x))


def test_dropout_is_on_the_pooled_vector():
    head = SecondOrderHead(5, 3, q=4, k=3, dropout=0.5).train()
    x = draw(2, 7, 5).float()
    assert not torch.equal(head(x), head(x))
    assert torch.equal(head.eval()(x), head(x))


def test_half_precision_and_autocast():
    torch.manual_seed(0)
    head = SecondOrderHead(32, 3, q=8, k=4, dropout=0.0)
    x, mask = draw(4, 7, 32).float(), mask_of(7, 4, 2, 1)
    expected = head(x, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for tokens in (x, x.bfloat16()):  # the logits are in the precision of the weights
            torch.testing.assert_close(head(tokens, mask), expected, rtol=0, atol=0.02)
    out = head.bfloat16()(x.bfloat16(), mask)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_norms_in_half_precision(norm, masked, training):
    """Statistics are in float32 whatever the weights are in."""
    torch.manual_seed(0)
    head = SecondOrderHead(32, 3, q=8, k=4, dropout=0.0, norm=norm, masked=masked)
    x, mask = draw(4, 7, 32).float(), mask_of(7, 4, 2, 1)
    head(x + 1, mask)  # running means that are not 0
    half = copy.deepcopy(head).bfloat16().train(training)
    expected = head.train(training)(x, mask)
    torch.testing.assert_close(half(x.bfloat16(), mask).float(), expected, rtol=0, atol=0.03)
    if norm == "batch":
        theirs, ours = (each.pool.covariance.batch_norm for each in (half, head))
        torch.testing.assert_close(theirs.running_var.float(), ours.running_var, rtol=0.02, atol=0.02)


def test_published_settings():
    task = {
        name: (PRESETS[name]["q"], PRESETS[name]["k"], PRESETS[name]["dropout"])
        for name in ("mnli", "qnli", "rte", "cola")
    }
    assert task == {"mnli": (112, 48, 0.7), "qnli": (112, 48, 0.5), "rte": (56, 32, 0.8), "cola": (96, 48, 0.5)}
    both = head_settings(("original-text", "rte"), k=16)
    assert (both.norm, both.masked, both.q, both.k, both.dropout) == ("batch", False, 56, 16, 0.8)
    default = HeadSettings()
    assert (default.norm, default.masked, default.pooling) == ("none", True, "cross_covariance")
    for name in PRESETS:
        head_settings(name)


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ({"preset": "sst"}, ValueError, "original-text"),
        ({"width": 3}, TypeError, "unknown head setting width"),
        ({"fusion": "add"}, ValueError, "sum_fc"),
        ({"q": 0}, ValueError, "at least 1"),
        ({"dropout": 1.0}, ValueError, "probability"),
        ({"normalization": "isqrt"}, ValueError, "not symmetric"),
        ({"singular_values": 2}, ValueError, "iterations >= 2"),
        ({"singular_values": 9, "iterations": 2, "q": 8, "k": 4}, ValueError, "8x4"),
        ({"skip_special": True, "masked": False}, ValueError, "Choose one"),
    ],
)
def test_wrong_settings_are_refused(changes, error, word):
    with pytest.raises(error, match=word):
        head_settings(**changes)


def test_a_wrong_mask_is_refused():
    with pytest.raises(ValueError, match="mask has shape"):
        SecondOrderHead(5, 3, q=4, k=3)(draw(2, 7, 5).float(), torch.ones(2, 6))


def test_foreign_checkpoints_are_refused():
    with pytest.raises(ValueError, match="strip the prefix"):
        SecondOrderHead.from_original({"visual_fc.weight": torch.zeros(2, 4)})
