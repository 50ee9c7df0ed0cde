"""svPN and the matrix square root: limits, gradients, and matrices without full rank."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from toughen.heads import SVPN, matrix_square_root, svpn, svpn_exact


def matrix(values, rows=5, columns=4, seed=0):
    """A matrix with the given singular values."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(n, columns, generator=generator, dtype=torch.float64))[0] for n in (rows, columns)
    )
    return (left * torch.tensor(values, dtype=torch.float64)) @ right.mT


def draw(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Well apart, nearly equal at the top, nearly equal below, and without full rank.
SPECTRA = [(3.0, 2.0, 1.0, 0.5), (2.0, 1.999, 1.0, 0.5), (3.0, 1.0, 0.9999, 0.9998), (3.0, 2.0, 0.0, 0.0)]


@pytest.mark.parametrize("values", SPECTRA)
@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
@pytest.mark.parametrize(("count", "rounds"), [(1, 1), (1, 3), (2, 2)])
def test_svpn_gradients(values, alpha, count, rounds):
    x, start = matrix(values)[None].requires_grad_(), draw(5).requires_grad_()
    assert gradcheck(lambda x, s: svpn(x, s, alpha=alpha, singular_values=count, iterations=rounds), (x, start))


@pytest.mark.parametrize("values", SPECTRA)
@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("wide", [False, True])
def test_exact_gradients(values, alpha, count, wide):
    x = matrix(values)[None]
    x = (x.mT if wide else x).contiguous().requires_grad_()
    assert gradcheck(lambda x: svpn_exact(x, alpha=alpha, singular_values=count), (x,))


def test_exact_gradient_where_singular_values_are_equal():
    # Ties inside the powered set and inside the rest are smooth points; the gradient of svd itself is infinite there.
    inside = matrix((2.0, 2.0, 1.0, 0.5))[None].requires_grad_()
    assert gradcheck(lambda x: svpn_exact(x, singular_values=3), (inside,))
    outside = matrix((3.0, 1.0, 1.0, 1.0))[None].requires_grad_()
    assert gradcheck(lambda x: svpn_exact(x, singular_values=1), (outside,))
    across = matrix((2.0, 2.0, 2.0, 2.0))[None].requires_grad_()
    svpn_exact(across, singular_values=2).sum().backward()
    assert across.grad.isfinite().all()
    assert across.grad.abs().max() < 10


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 7),
    columns=st.integers(1, 7),
    alpha=st.floats(0.0, 1.0),
    side=st.sampled_from(["rows", "columns"]),
    seed=st.integers(0, 99),
)
def test_more_iterations_reach_the_exact_result(rows, columns, alpha, side, seed):
    x = draw(2, rows, columns, seed=seed)
    exact = svpn_exact(x, alpha=alpha)
    values = torch.linalg.svdvals(x)
    if min(rows, columns) > 1 and (values[:, 1] / values[:, 0]).max() > 0.98:
        return  # the power method crawls when the first two values are close
    start = draw(rows if side == "rows" else columns, seed=seed + 100)
    torch.testing.assert_close(svpn(x, start, alpha=alpha, iterations=800, side=side), exact, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("size", [0.0, 1e-40, 1e-25, 1e-12, 1.0])
@pytest.mark.parametrize("rank", [1, 4])
def test_values_and_gradients_are_finite(dtype, alpha, size, rank):
    x = (draw(2, 5, rank) @ draw(rank, 4) * size).to(dtype).requires_grad_()
    start = draw(5).to(dtype).requires_grad_()
    for out in (
        svpn(x, start, alpha=alpha),
        svpn(x, start, alpha=alpha, singular_values=3, iterations=2),
        svpn_exact(x, alpha=alpha, singular_values=3),
    ):
        assert out.isfinite().all()
        for grad in torch.autograd.grad(out.square().sum() + out.sum(), (x, start), allow_unused=True):
            assert grad is None or grad.isfinite().all()


def test_a_zero_start_vector_is_finite():
    x, start = draw(1, 5, 4).requires_grad_(), torch.zeros(5, dtype=torch.float64, requires_grad=True)
    svpn(x, start).sum().backward()
    assert x.grad.isfinite().all()
    assert start.grad.isfinite().all()


def test_half_precision_is_computed_in_float32():
    x = draw(2, 6, 4).bfloat16()
    out = svpn(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, svpn(x.float()).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(svpn(x.float()), svpn(x.float()), rtol=0, atol=0)
        inside = svpn(x.float())
    torch.testing.assert_close(inside, svpn(x.float()), rtol=0, atol=0)


def test_leading_dimensions_are_kept():
    x, start = draw(2, 3, 5, 4), draw(5)
    torch.testing.assert_close(svpn(x, start)[1, 2], svpn(x[1, 2][None], start)[0])


def test_starts():
    x = draw(2, 5, 4)
    assert isinstance(SVPN(5).start, torch.nn.Parameter)
    ones = SVPN(5, start="ones")
    assert not ones.state_dict()
    torch.testing.assert_close(ones(x), svpn(x, torch.ones(5, dtype=torch.float64)))
    fixed = SVPN(5, start="fixed")
    assert not list(fixed.parameters())
    assert torch.equal(fixed(x), fixed(x))
    random = SVPN(5, start="random")
    assert not torch.equal(random.train()(x), random(x))
    assert torch.equal(random.eval()(x), random(x))
    assert not SVPN(5, exact=True, singular_values=2).state_dict()
    torch.testing.assert_close(SVPN(5, exact=True, singular_values=2)(x), svpn_exact(x, singular_values=2))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"singular_values": 2}, "iterations >= 2"),
        ({"alpha": -1.0}, "negative"),
        ({"iterations": 0}, "at least 1"),
        ({"start": "best"}, "'learned'"),
        ({"side": "left"}, "'rows'"),
    ],
)
def test_wrong_settings_are_refused_with_the_way_out(changes, word):
    with pytest.raises(ValueError, match=word):
        SVPN(5, **changes)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"needs \(5,\)"):
        svpn(draw(1, 5, 4), draw(4))
    with pytest.raises(ValueError, match="5x4 matrix has 4"):
        svpn(draw(1, 5, 4), singular_values=5, iterations=2)


def test_matrix_square_root():
    x = draw(3, 6, 4)
    covariance = x.mT @ x
    root = matrix_square_root(covariance, iterations=40)
    torch.testing.assert_close(root @ root, covariance)
    assert gradcheck(lambda a: matrix_square_root(a @ a.mT, 5), (draw(1, 4, 6).requires_grad_(),))
    zero = torch.zeros(1, 4, 4, dtype=torch.float64, requires_grad=True)
    out = matrix_square_root(zero)
    out.sum().backward()
    assert not out.any()
    assert zero.grad.isfinite().all()
