"""Moves of weights: the papers' formulas, and none where the gradient overflowed."""

import pytest
import torch
from torch import Tensor

from toughen.search import RelativeWeightAscent, SharpnessAscent
from toughen.search.constraint import SpectralNormHead
from toughen.sites.base import Activation

SEARCHES = {
    "sam": SharpnessAscent(0.05),
    "asam": SharpnessAscent(0.5, adaptive=True, eta=0.01),
    "awp": RelativeWeightAscent(1.0, 0.01),
}


def drawn(seed: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random) for shape in ((5, 3), (4,))]


def ascend(name: str, weights: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    return SEARCHES[name].ascend([], [grad.clone() for grad in grads], [Activation(weight) for weight in weights])


def test_the_moves_are_the_papers() -> None:
    weights, grads = drawn(0), drawn(1)
    w, g = (torch.cat([x.flatten() for x in many]) for many in (weights, grads))
    sam, asam = (torch.cat([m.flatten() for m in ascend(name, weights, grads)]) for name in ("sam", "asam"))
    torch.testing.assert_close(sam, 0.05 * g / g.norm())
    size = w.abs() + 0.01
    torch.testing.assert_close(asam, 0.5 * size**2 * g / (size * g).norm())
    for weight, grad, move in zip(weights, grads, ascend("awp", weights, grads), strict=True):
        limit = 0.01 * weight.abs()
        torch.testing.assert_close(move, (grad * weight.norm() / grad.norm()).clamp(-limit, limit))


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", SEARCHES)
def test_no_step_on_a_gradient_that_overflowed(name: str, bad: float) -> None:
    weights, grads = drawn(0), drawn(1)
    grads[0][1, 1] = bad
    first, second = ascend(name, weights, grads)
    assert not first.any()
    assert second.all() if name == "awp" else not second.any()  # AWP gives each matrix a step of its own


@pytest.mark.parametrize("name", SEARCHES)
def test_a_gradient_of_zero_moves_nothing(name: str) -> None:
    assert not any(move.any() for move in ascend(name, drawn(0), [torch.zeros_like(grad) for grad in drawn(1)]))


def test_a_head_of_zeros_stays_one() -> None:
    """Some are made so, and to be scaled to norm 1 they have no direction."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.nn.init.zeros_(model[0].weight)
    SpectralNormHead().apply(model)
    assert not model[0].weight.any()
