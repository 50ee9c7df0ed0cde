"""Balls, unit lengths and their units."""

from functools import partial

import pytest
import torch
from hypothesis import given

from toughen.errors import MethodError
from toughen.search import INF, Absolute, Ball, Normalized, PowerIteration, Relative, RescaleTo, Sign
from toughen.search.norms import norm
from toughen.sites.base import Activation

from .draws import few, seeds, shapes, sizes, tensor, view

every_norm = pytest.mark.parametrize("p", [1, 2, INF])
every_part = pytest.mark.parametrize("over", ["token", "example"])
every_unit = pytest.mark.parametrize("units", [Absolute(), Relative()], ids=["absolute", "relative"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_perturbation_is_never_below_float32(dtype) -> None:
    assert Activation(torch.zeros(1, 2, 3, dtype=dtype)).dtype == (
        torch.float64 if dtype == torch.float64 else torch.float32
    )


@every_unit
@every_part
@every_norm
@given(shape=shapes, seed=seeds, size=sizes)
@few
def test_a_ball_holds_what_it_shrinks_and_leaves_alone_what_it_holds(p, over, units, shape, seed, size) -> None:
    ball, here = Ball(0.7, p, over), view(shape, seed)
    x = here.masked(tensor(shape, seed, size))
    inside = ball(x, here, units)
    limit = torch.as_tensor(0.7 * units.length(here, p, over))
    assert torch.isfinite(inside).all()
    lengths = norm(inside, p, over) if p != INF else inside.abs()
    assert (lengths <= limit * (1 + 1e-5)).all()
    torch.testing.assert_close(ball(inside, here, units), inside, rtol=1e-6, atol=0)  # idempotent
    small = x / norm(x, 1, "example").clamp(min=1e-30) * limit.min() / 2  # every p-norm is at most the 1-norm
    torch.testing.assert_close(ball(small, here, units), small, rtol=0, atol=0)
    outside = (norm(x, p, over) > limit).expand_as(x) & (x != 0)
    assert torch.equal(inside.sign()[outside], torch.where(limit > 0, x.sign(), 0.0)[outside])


@every_part
@every_norm
@given(shape=shapes, seed=seeds, size=sizes)
@few
def test_a_unit_has_norm_one_whatever_the_scale(p, over, shape, seed, size) -> None:
    grad = tensor(shape, seed, size)
    lengths = norm(Normalized(p, over)(grad), p, over)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=1e-5, atol=0)
    torch.testing.assert_close(Normalized(p, over)(grad), Normalized(p, over)(4 * grad), rtol=1e-5, atol=1e-7)


@every_part
@every_norm
def test_a_zero_gradient_stays_zero(p, over) -> None:
    zero = torch.zeros(2, 3, 4)
    assert torch.equal(Normalized(p, over)(zero), zero)
    assert torch.equal(RescaleTo(1.0, p, over)(zero, view((2, 3, 4), 0), Absolute()), zero)
    assert torch.equal(Ball(1.0, p, over)(zero, view((2, 3, 4), 0), Relative()), zero)
    assert torch.equal(Sign()(zero), zero)


@pytest.mark.parametrize(
    "make",
    [Normalized, partial(Ball, 1.0), partial(RescaleTo, 1.0), partial(PowerIteration, 1.0, 0.1)],
    ids=["unit", "ball", "rescale", "power"],
)
def test_norms_that_are_none_are_refused(make) -> None:
    """An unknown word had been the example to the norm and the token to its units."""
    with pytest.raises(MethodError, match="per='tokens' is not known"):
        make(per="tokens")
    for p in (0, 0.5, -2, float("nan")):
        with pytest.raises(MethodError, match=f"p={p} makes no norm"):
            make(p=p)


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan")])
def test_a_length_to_rescale_to_is_above_zero(radius) -> None:
    with pytest.raises(MethodError, match=f"radius={radius}"):
        RescaleTo(radius)


@given(shape=shapes, seed=seeds)
@few
def test_a_relative_length_of_one_is_the_root_mean_square_under_every_norm(shape, seed) -> None:
    here = view(shape, seed)
    flat = here.masked(here.rms.expand(shape).to(here.dtype))
    for p in (1, 2, INF):
        torch.testing.assert_close(
            Relative().length(here, p, "example"), norm(flat, p, "example"), rtol=1e-5, atol=1e-7
        )
        tokens = norm(here.rms.expand(shape), p, "token")[:, :1]
        torch.testing.assert_close(Relative().length(here, p, "token"), tokens, rtol=1e-5, atol=1e-7)


@given(shape=shapes, seed=seeds)
@few
def test_the_root_mean_square_is_that_of_the_unmasked_elements(shape, seed) -> None:
    here = view(shape, seed)
    assert here.mask is not None
    for row in range(shape[0]):
        chosen = here.value[row][here.mask[row].expand(shape[1:])]
        expected = chosen.square().mean().sqrt() if chosen.numel() else torch.tensor(0.0)
        torch.testing.assert_close(here.rms[row].squeeze(), expected, rtol=1e-5, atol=1e-7)
