"""The spectrum of a second-order head, against singular values taken by hand."""

import pytest
import torch

import toughen
from toughen.heads.spectrum import spectrum

from ..tiny import bert, text_batch


def built(**settings):
    return toughen.second_order(bert(torch.float32).bert, num_labels=3, q=6, k=4, **settings).eval()


def test_values_before_and_after(monkeypatch):
    model = built()
    batch = text_batch()
    seen = []
    pool = model.classifier.pool
    pool.register_forward_pre_hook(lambda _, given: seen.append(given))
    found = spectrum(model, batch)
    with torch.no_grad():
        matrix = pool.covariance(*seen[0])[:, 0].double()
        after = pool(*seen[0]).view(-1, 6, 4).double()  # the head's own path, fused
    for part, matrices in (("before", matrix), ("after", after)):
        wanted = torch.linalg.svdvals(matrices).mean(0)
        assert found[part]["mean"] == pytest.approx(wanted.tolist(), rel=1e-3, abs=1e-6)
        assert all(low <= high for low, high in zip(found[part]["low"], found[part]["high"], strict=True))
        assert 1 <= found[part]["effective_rank"] <= 4
    assert (found["rows"], found["shape"], found["normalization"]) == (3, [1, 6, 4], "svpn")
    assert len(pool._forward_pre_hooks) == 1  # its own is gone


def test_other_poolings():
    assert spectrum(built(preset="isqrt"), text_batch())["normalization"] == "isqrt"
    assert spectrum(built(normalization="none"), text_batch())["normalization"] == "none"
    assert spectrum(built(pooling="average"), text_batch()) is None
    assert spectrum(bert(torch.float32), text_batch()) is None
