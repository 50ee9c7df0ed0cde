"""No start and no climb moves a masked position, and one example's mask is no other's business."""

import pytest
import torch
from hypothesis import given

from toughen.engine.perturbation import Perturbation
from toughen.search import (  # fmt: skip
    INF,
    Absolute,
    Ascent,
    Ball,
    CustomInit,
    NeftuneNoise,
    Noise,
    NoProjection,
    Normal,
    Normalized,
    PowerIteration,
    RawGradient,
    Relative,
    RescaleTo,
    Sign,
    Uniform,
    UniformBall,
    Zeros,
)

from .draws import few, seeds, shapes, tensor, view

INITS = [
    Zeros(),
    Normal(0.1),
    Normal(0.1, clip=2.0),
    Uniform(0.1),
    UniformBall(0.1),
    NeftuneNoise(5.0),
    CustomInit(lambda v: torch.ones_like(v.value)),
]
DIRECTIONS = [
    Normalized(2, "example"),
    Normalized(INF, "token", eps=1e-6),
    Normalized(1, "token"),
    Sign(),
    RawGradient(),
]
PROJECTS = [
    NoProjection(),
    Ball(0.5),
    Ball(0.5, INF),
    Ball(0.5, 1, "token"),
    RescaleTo(1.0, eps=1e-6),
    RescaleTo(0.3, 2, "example"),
]
SEARCHES = (
    [Ascent(0.3, init=init, units=units) for init in INITS for units in (Absolute(), Relative())]
    + [Ascent(0.3, init=Normal(0.1), direction=direction, project=p) for direction in DIRECTIONS for p in PROJECTS]
    + [Noise(init, units) for init in INITS for units in (Absolute(), Relative())]
    + [PowerIteration(0.5, 0.01, per=per, units=u) for per in ("token", "example") for u in (Absolute(), Relative())]
)


def walk(search, here, seed):
    """Start, climb twice, finish."""
    delta = search.start(here)
    yield delta
    for step in range(2):
        (delta,) = search.ascend([delta], [tensor(here.value.shape, seed + 7 + step)], [here])
        yield delta
    yield search.project_final(delta, here)


@pytest.mark.parametrize("search", SEARCHES)
@given(shape=shapes, seed=seeds)
@few
def test_masked_positions_stay_at_zero(search, shape, seed) -> None:
    here = view(shape, seed)
    for delta in walk(search, here, seed):
        assert torch.isfinite(delta).all()
        assert (delta * ~here.mask == 0).all()


@given(seed=seeds)
@few
def test_noise_is_drawn_position_by_position(seed) -> None:
    """Longer padding to the right does not shift the stream. Blocks of 16 numbers are what torch draws at once."""
    for init in (Normal(1.0), Uniform(1.0)):
        short, long = (view((2, length, 8), seed, masked=False) for length in (3, 9))
        drawn = [init(v, Absolute()) for v in (short, long)]
        assert torch.equal(drawn[0], drawn[1][:, :3])


@given(shape=shapes, seed=seeds)
@few
def test_what_is_not_masked_does_move(shape, seed) -> None:
    here = view(shape, seed)
    for delta in walk(Ascent(0.3, init=Normal(0.1), project=Ball(0.5)), here, seed):
        assert ((delta != 0) == here.mask.expand(shape)).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("search", SEARCHES)
def test_an_example_without_a_finite_gradient_keeps_its_perturbation(search, bad) -> None:
    here = view((4, 3, 5), 3, masked=False)
    grad = tensor((4, 3, 5), 8)
    broken = grad.clone()
    broken[1, 2, 0] = broken[3, 0, 4] = bad
    moved = []
    for one in (grad, broken):
        start = tensor((4, 3, 5), 9, 0.1)
        perturbation = Perturbation({0: start.clone()}, {0: here}, {0: start})
        perturbation.ascend(search, [one])
        moved.append(perturbation.at[0].detach())
        texts, zero, skipped = perturbation.gradient_counts
    assert torch.equal(moved[1][[0, 2]], moved[0][[0, 2]])  # the others climb as if nothing had happened
    assert torch.equal(moved[1][[1, 3]], start[[1, 3]])
    assert (texts, zero, skipped) == (4, 0, 2)
