"""The kernels of the adversary's mask, interpreted on a CPU, against `search.hide` in torch."""

import math
from dataclasses import replace

import pytest
import torch

from toughen.kernels import mask_function
from toughen.search.mask_function import MaskConfig, StraightThroughMask

from .interpreted import interpreter, needed

pytestmark = [needed, pytest.mark.usefixtures("interpreter")]
__all__ = ["interpreter"]
RULE = MaskConfig(
    0.3, 0.5, temperature=0.7, reversal=1.5, slope=1.0, hidden_value=None, keep_own_pair=True, count_share=True
)
PUBLISHED = MaskConfig(
    0.3, 0.0, temperature=1.0, reversal=1.0, slope=1e4, hidden_value=-1e4, keep_own_pair=False, count_share=False
)
DIALS = replace(RULE, offset=-0.5, temperature=torch.tensor(0.7))


def asked(rule, batch, masks, length, padded, causal, noise=True, dtype=torch.float32):
    """Mask, shares and the gradients of the adversary's queries and keys."""
    torch.manual_seed(length)
    query, key = (torch.randn(batch, masks, length, 8).requires_grad_() for _ in range(2))
    draw = torch.randint(-(2**31), 2**31, (2,)).to(torch.int32) if noise else None
    ends = torch.tensor([length, max(1, length // 3)])[:batch, None]
    queries = torch.arange(length) < ends if padded else None
    pairs = None if queries is None else queries.view(batch, 1, 1, length).expand(batch, 1, length, length)
    if causal:
        tril = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
        pairs = tril if pairs is None else pairs & tril
    bias, kept = StraightThroughMask.apply(query, key, draw, pairs, queries, rule, dtype)
    grad_bias, grad_kept = torch.randn(bias.shape).to(dtype), torch.randn(kept.shape)
    grads = torch.autograd.grad((bias, kept), (query, key), (grad_bias, grad_kept))
    return bias.detach(), kept.detach(), *grads


@pytest.mark.parametrize("rule", [RULE, PUBLISHED, DIALS], ids=["recommended", "published", "value_tensors"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 1, 20), (1, 3, 33)], ids=str)
def test_as_in_torch(rule, shape, padded, causal, monkeypatch):
    expected = asked(rule, *shape, padded, causal, noise=rule.keep_own_pair, dtype=torch.float16)
    calls = []
    monkeypatch.setattr(mask_function, "supports", lambda _: calls.append(1) or True)
    ours = asked(rule, *shape, padded, causal, noise=rule.keep_own_pair, dtype=torch.float16)
    assert len(calls) == 2
    assert ours[0].dtype == torch.float16
    assert (ours[0] != 0).any()
    assert torch.equal(ours[0], expected[0])
    for mine, reference in zip(ours[1:], expected[1:], strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-5 * float(reference.abs().max()))


def test_noise_hides_the_share_it_should(monkeypatch):
    monkeypatch.setattr(mask_function, "supports", lambda _: True)
    rule = MaskConfig(0.0, math.log(0.8 / 0.2), 1.0, 1.0, 1.0, None, True, True)
    kept = asked(rule, 2, 1, 150, False, False)[1]
    assert kept.mean() == pytest.approx(0.8, abs=0.01)


def test_a_query_that_loses_all_keys_keeps_itself(monkeypatch):
    monkeypatch.setattr(mask_function, "supports", lambda _: True)
    rule = MaskConfig(0.0, -100.0, 1.0, 1.0, 1.0, None, True, True)
    bias, kept, *_ = asked(rule, 2, 1, 12, True, False)
    assert torch.equal(bias[0, 0] == 0, torch.eye(12, dtype=torch.bool))
    assert kept.tolist() == pytest.approx([1 / 12, 1 / 4])
