"""Randomness has owners: a seed repeats a run bit for bit, and noise never disturbs dropout's stream."""

from typing import Any

import pytest
import torch
from torch import Tensor

import toughen

from ..families.test_families import METHODS, attached_to, step
from ..families.zoo import FAMILIES, batch_for
from ..tiny import LETTERS, make

NOISY = {"alum", "asa", "creat", "freeat", "freelb", "neftune", "pgd", "r3f", "r4f", "sift", "smart", "typos", "vat"}
NOISY |= {"words"}
BATCH = batch_for(FAMILIES["bert"])


def noisy(name: str) -> Any:
    """A method with noise that changes the words of so small a batch."""
    return make(name, **{"words": {"noise": 9.0}, "typos": {"rate": 1.0}}.get(name, {}))


def two_steps(method: Any, seed: int, dropout: float = 0.1) -> list[Tensor]:
    """The gradients of two steps, and where torch's generator stands then."""
    model = FAMILIES["bert"].build(dropout=dropout)
    torch.manual_seed(5)
    with attached_to(model, method, seed=seed) as attached:
        for _ in range(2):
            step(attached, model, BATCH)
        return [*[p.grad for p in model.parameters() if p.grad is not None], torch.get_rng_state()]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_gradients_bit_for_bit(name: str) -> None:
    first, second = (two_steps(noisy(name), 11) for _ in range(2))
    assert same(first, second)


@pytest.mark.parametrize("name", METHODS)
def test_another_seed_gives_other_noise_where_there_is_noise(name: str) -> None:
    one, other = (two_steps(noisy(name), seed, dropout=0.0) for seed in (11, 12))
    assert same(one[:-1], other[:-1]) == (name not in NOISY)


@pytest.mark.parametrize("name", sorted(NOISY))
def test_torchs_own_seed_is_the_noises_when_none_is_given(name: str) -> None:
    def run(seed: int) -> list[Tensor]:
        model = FAMILIES["bert"].build(dropout=0.0)
        torch.manual_seed(seed)
        with noisy(name).attach(model, LETTERS, total_steps=9) as attached:
            step(attached, model, BATCH)
            return [p.grad for p in model.parameters() if p.grad is not None]

    assert same(run(3), run(3))
    assert not same(run(3), run(4))


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_draws_nothing_from_torchs_generator(name: str) -> None:
    *_, state = two_steps(noisy(name), 11, dropout=0.0)
    torch.manual_seed(5)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", [name for name in METHODS if make(name).dropout == "shared"])
def test_dropouts_stream_goes_on_as_in_plain_training(name: str) -> None:
    """One mask for all passes of a batch: the next batch gets the mask that plain training would give it."""
    plain, robust = (two_steps(make(one), 11)[-1] for one in ("plain", name))
    assert torch.equal(plain, robust)


@pytest.mark.parametrize("policy", ["fresh", "off", "shared"])
def test_a_dropout_policy_is_what_it_says(policy: Any) -> None:
    """The perturbed pass's loss against the clean one's, under no noise at all."""
    model = FAMILIES["bert"].build(dropout=0.3)
    flags = [module.training for module in model.modules()]
    method = toughen.r3f(init=lambda view: torch.zeros_like(view.value), dropout=policy)
    torch.manual_seed(0)
    with method.attach(model) as attached:
        step(attached, model, BATCH)
        report = attached.report()
    with torch.no_grad():
        still = model.eval()(**BATCH).loss
    model.train()
    assert (report["loss_clean"] == report["loss_perturbed"]) == (policy != "fresh")
    assert torch.allclose(report["loss_clean"], still) == (policy == "off")
    assert [module.training for module in model.modules()] == flags


def test_a_restored_state_goes_on_with_the_same_noise() -> None:
    model = FAMILIES["bert"].build(dropout=0.0)
    with toughen.smart().attach(model, seed=1) as attached:
        step(attached, model, BATCH)
        state = attached.state_dict()
        step(attached, model, BATCH)
        expected = attached.last_batches[0].perturbation.starts[0]
    with toughen.smart().attach(model, seed=99) as attached:
        attached.load_state_dict(state)
        step(attached, model, BATCH)
        assert torch.equal(attached.last_batches[0].perturbation.starts[0], expected)
