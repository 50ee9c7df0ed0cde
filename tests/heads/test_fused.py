"""The single autograd step against the ordinary operations it stands for."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from toughen.heads import SecondOrderHead
from toughen.heads.pooling import fused_pool, reference_pool


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(lengths=(6, 3, 2)):
    x = draw(len(lengths), 6, 5)
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    return x.requires_grad_(), mask, draw(3, seed=1).requires_grad_()


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_values_and_gradients_are_those_of_the_plain_path(relu, alpha, eps):
    x, mask, start = inputs()
    coefficients = draw(3, 3, 2, seed=4)
    results = []
    for pool in (fused_pool, reference_pool):
        out = pool(x, mask, start, 3, relu, alpha, eps)
        results.append((out, *torch.autograd.grad((out * coefficients).sum(), (x, start))))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_first_and_second_gradients(eps):
    x, mask, start = inputs((6, 5, 4))

    def pool(x, start):
        return fused_pool(x, mask, start, 3, False, 0.5, eps)

    assert gradcheck(pool, (x, start))
    assert gradgradcheck(pool, (x, start))
    assert gradgradcheck(lambda x: pool(x, start.detach()), (x,))


@pytest.mark.parametrize("lengths", [(6, 1, 0), (0, 0, 0), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_empty_and_one_token_rows_are_finite(lengths, dtype, eps):
    x, mask, start = inputs(lengths)
    x, start = (value.detach().to(dtype).requires_grad_() for value in (x, start))
    out = fused_pool(x, mask, start, 3, True, 0.5, eps)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    assert start.grad.isfinite().all()


def test_the_usual_head_takes_this_path_and_others_do_not(monkeypatch):
    from toughen.heads import pooling

    calls = []
    monkeypatch.setattr(pooling, "fused_pool", lambda *args: calls.append(1) or reference_pool(*args))
    x = draw(2, 6, 5).float()
    SecondOrderHead(5, 2, q=3, k=2)(x)
    SecondOrderHead(5, 2, q=3, k=2, preset="original-text")(x)
    assert len(calls) == 2
    for change in ({"heads": 2}, {"norm": "layer"}, {"iterations": 2}, {"center": "scalar"}, {"start": "ones"}):
        SecondOrderHead(5, 2, **{"q": 3, "k": 2, **change})(x)
    assert len(calls) == 2


def test_the_start_vector_may_be_frozen():
    head = SecondOrderHead(5, 2, q=3, k=2)
    head.pool.normalize.start.requires_grad_(False)
    head(draw(2, 6, 5).float()).sum().backward()
    assert head.pool.normalize.start.grad is None
    assert head.pool.covariance.projection.weight.grad is not None
