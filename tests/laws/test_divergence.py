"""Divergences: not negative, zero on equal inputs, symmetric where they say so, finite whatever the logits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toughen.compare import Divergence
from toughen.compare import rowwise as rows
from toughen.compare.model_outputs import ModelOutputs, Prediction

from .draws import few, seeds, tensor

KINDS = ["kl", "reverse_kl", "symmetric_kl", "js"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_score_kind = pytest.mark.parametrize("score_kind", ["multiclass", "multilabel", "regression"])
blocks = st.tuples(st.integers(1, 4), st.integers(2, 7))
logits = st.sampled_from([1e-3, 1.0, 30.0])


def outcome(scores, score_kind="multiclass", counts=None) -> ModelOutputs:
    return ModelOutputs(None, (Prediction(scores, score_kind, counts),))


def divergence(kind, perturbed, clean, score_kind="multiclass", counts=None, **options):
    return Divergence(kind, **options)(outcome(perturbed, score_kind, counts), outcome(clean, score_kind, counts), [])


@every_score_kind
@every_kind
@given(shape=blocks, seed=seeds, size=logits)
@few
def test_not_negative_and_zero_on_equal_inputs(kind, score_kind, shape, seed, size) -> None:
    a, b = tensor(shape, seed, size), tensor(shape, seed + 1, size)
    assert divergence(kind, a, b, score_kind) >= -1e-6
    assert divergence(kind, a, a, score_kind).abs() <= 1e-6
    if size >= 1.0:
        assert divergence(kind, a, b, score_kind) > 0


@every_score_kind
@given(shape=blocks, seed=seeds, size=logits)
@few
def test_symmetric_where_it_says_so(score_kind, shape, seed, size) -> None:
    a, b = tensor(shape, seed, size), tensor(shape, seed + 1, size)
    for kind in ("symmetric_kl", "js"):
        torch.testing.assert_close(divergence(kind, a, b, score_kind), divergence(kind, b, a, score_kind))
    torch.testing.assert_close(divergence("kl", a, b, score_kind), divergence("reverse_kl", b, a, score_kind))
    total = divergence("kl", a, b, score_kind) + divergence("reverse_kl", a, b, score_kind)
    if score_kind != "regression":  # regression has one distance, squared error
        torch.testing.assert_close(divergence("symmetric_kl", a, b, score_kind), total)


@given(shape=blocks, seed=seeds, size=logits)
@few
def test_js_is_at_most_log_two_and_shifts_do_not_matter(shape, seed, size) -> None:
    a, b = tensor(shape, seed, size), tensor(shape, seed + 1, size)
    assert divergence("js", a, b) <= math.log(2) + 1e-6
    for kind in KINDS:
        torch.testing.assert_close(divergence(kind, a + 5, b - 3), divergence(kind, a, b), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@every_score_kind
@pytest.mark.parametrize("kind", [*KINDS, "sift_cross_entropy", "mtdnn_stable_kl"])
@pytest.mark.parametrize("detach", ["nothing", "clean", "targets"])
def test_finite_with_finite_gradients_for_extreme_logits(kind, score_kind, dtype, detach) -> None:
    extreme = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 0.0, 0.0], [-1e4, -1e4, -1e4]], dtype=dtype)
    for other in (extreme.flip(0), extreme.flip(1), extreme, torch.zeros_like(extreme)):
        perturbed, clean = extreme.clone().requires_grad_(), other.clone().requires_grad_()
        value = divergence(kind, perturbed, clean, score_kind, detach=detach)
        assert torch.isfinite(value)
        assert value.dtype == torch.float32
        (value + 0 * (perturbed.sum() + clean.sum()).float() * 0).backward()
        assert torch.isfinite(perturbed.grad).all()
        assert torch.isfinite(clean.grad).all()


@pytest.mark.parametrize("detach", ["nothing", "clean", "targets"])
@pytest.mark.parametrize("kind", [*KINDS, "sift_cross_entropy", "mtdnn_stable_kl"])
@given(seed=seeds, columns=st.integers(5, 23))
@few
def test_a_sliced_vocabulary_gives_the_same_value_and_gradient(kind, detach, seed, columns) -> None:
    results = []
    for size in (100, 4):
        perturbed, clean = (tensor((3, 5, columns), seed + i, 3.0, torch.float64).requires_grad_() for i in range(2))
        counts = tensor((3, 5), seed + 2) > 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "VOCAB_CHUNK", size)
            value = divergence(kind, perturbed, clean, counts=counts, detach=detach)
            (value + 0 * (perturbed.sum() + clean.sum())).backward()
        results.append((value.detach(), perturbed.grad, clean.grad))
    for whole, sliced in zip(*results, strict=True):
        torch.testing.assert_close(sliced, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [100, 3])
@pytest.mark.parametrize("detach", ["nothing", "clean", "targets"])
@pytest.mark.parametrize("kind", [*KINDS, "sift_cross_entropy", "mtdnn_stable_kl"])
def test_a_class_ruled_out_by_minus_infinity_is_as_if_it_were_not_there(kind, detach, size, monkeypatch) -> None:
    """Cross-entropy takes such scores, and so do heads that mask what an example cannot be."""
    monkeypatch.setattr(rows, "VOCAB_CHUNK", size)
    results = []
    for ruled_out in (True, False):
        both = [tensor((3, 5), i, 3.0, torch.float64).requires_grad_() for i in range(2)]
        given = [torch.nn.functional.pad(x, (0, 4), value=-math.inf) if ruled_out else x for x in both]
        value = divergence(kind, *given, detach=detach)
        (value + 0 * (both[0].sum() + both[1].sum())).backward()
        results.append((value.detach(), both[0].grad, both[1].grad))
    for with_them, without in zip(*results, strict=True):
        torch.testing.assert_close(with_them, without, rtol=1e-10, atol=1e-12)


def test_a_large_vocabulary_is_sliced(monkeypatch) -> None:
    seen = []
    original = rows._sliced
    monkeypatch.setattr(rows, "_sliced", lambda *args: seen.append(1) or original(*args))
    divergence("kl", tensor((1, 1, rows.VOCAB_CHUNK), 0), tensor((1, 1, rows.VOCAB_CHUNK), 1))
    assert not seen
    divergence("kl", tensor((1, 1, rows.VOCAB_CHUNK + 1), 0), tensor((1, 1, rows.VOCAB_CHUNK + 1), 1))
    assert seen


def test_slices_leave_the_random_state_alone(monkeypatch) -> None:
    """Reading it from a CUDA device is forbidden while a graph is captured."""

    def read() -> None:
        raise AssertionError("the random state was read")

    monkeypatch.setattr(torch, "get_rng_state", read)
    monkeypatch.setattr(rows, "VOCAB_CHUNK", 4)
    perturbed = tensor((3, 5, 9), 0).requires_grad_()
    divergence("kl", perturbed, tensor((3, 5, 9), 1)).backward()
    assert perturbed.grad.abs().sum() > 0


@pytest.mark.parametrize("detach", ["nothing", "clean", "targets"])
@every_kind
def test_what_is_stopped_gets_no_gradient(kind, detach) -> None:
    perturbed, clean = (tensor((3, 4), i).requires_grad_() for i in range(2))
    value = divergence(kind, perturbed, clean, detach=detach)
    reached = torch.autograd.grad(value, [perturbed, clean], allow_unused=True)
    has = [grad is not None and bool(grad.abs().sum() > 1e-8) for grad in reached]
    if detach == "clean" or (detach == "targets" and kind == "kl"):
        assert has == [True, False]
    elif detach == "targets" and kind == "reverse_kl":
        assert has == [False, True]
    else:
        assert has == [True, True]


@every_score_kind
@pytest.mark.parametrize("kind", [*KINDS, "sift_cross_entropy", "mtdnn_stable_kl"])
def test_a_fixed_clean_side_gets_no_gradient_whatever_the_head(kind, score_kind) -> None:
    perturbed, clean = (tensor((3, 4), i).requires_grad_() for i in range(2))
    value = divergence(kind, perturbed, clean, score_kind, detach="clean")
    assert torch.autograd.grad(value, [perturbed, clean], allow_unused=True)[1] is None


@given(shape=blocks, seed=seeds)
@few
def test_every_label_of_a_multi_label_head_is_its_own_distribution(shape, seed) -> None:
    a, b = tensor(shape, seed, 2.0, torch.float64), tensor(shape, seed + 1, 2.0, torch.float64)
    p, q = b.sigmoid(), a.sigmoid()
    kl = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    reverse = q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log()
    torch.testing.assert_close(divergence("kl", a, b, "multilabel"), kl.mean())
    torch.testing.assert_close(divergence("symmetric_kl", a, b, "multilabel"), (kl + reverse).mean())


@every_kind
@given(shape=blocks, seed=seeds)
@few
def test_regression_is_squared_error_and_never_a_softmax(kind, shape, seed) -> None:
    one_column = (shape[0], 1)
    a, b = tensor(one_column, seed), tensor(one_column, seed + 1)
    value = divergence(kind, a, b, "regression")
    torch.testing.assert_close(value, (a - b).square().mean())
    # A softmax over the column or over the batch would not see a shift of all predictions.
    torch.testing.assert_close(divergence(kind, a + 10, a, "regression"), torch.tensor(100.0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("score_kind", ["multiclass", "multilabel"])
@given(seed=seeds)
@few
def test_only_rows_that_count_count(score_kind, seed) -> None:
    a, b = tensor((3, 5, 4), seed), tensor((3, 5, 4), seed + 1)
    counts = tensor((3, 5), seed + 2) > 0
    noise = torch.where(counts.unsqueeze(-1), 0.0, 1e3 * tensor((3, 5, 4), seed + 3))
    for reduction in ("mean", "sum"):
        value = divergence("symmetric_kl", a, b, score_kind, counts, reduction=reduction)
        again = divergence("symmetric_kl", a + noise, b, score_kind, counts, reduction=reduction)
        torch.testing.assert_close(value, again)
        broken = a.masked_fill(~counts.unsqueeze(-1), torch.nan)
        torch.testing.assert_close(
            value, divergence("symmetric_kl", broken, b, score_kind, counts, reduction=reduction)
        )
        if counts.any():
            alone = divergence("symmetric_kl", a[counts], b[counts], score_kind, reduction=reduction)
            torch.testing.assert_close(value, alone)
        else:
            assert value == 0


@given(seed=seeds)
@few
def test_kl_is_the_textbook_one(seed) -> None:
    a, b = tensor((4, 6), seed, 2.0, torch.float64), tensor((4, 6), seed + 1, 2.0, torch.float64)
    q, p = a.softmax(-1), b.softmax(-1)
    torch.testing.assert_close(divergence("kl", a, b), (p * (p / q).log()).sum(-1).mean())
    torch.testing.assert_close(divergence("reverse_kl", a, b, reduction="sum"), (q * (q / p).log()).sum())
    m = (p + q) / 2
    js = 0.5 * (p * (p / m).log() + q * (q / m).log()).sum(-1).mean()
    torch.testing.assert_close(divergence("js", a, b), js)
