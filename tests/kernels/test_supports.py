"""Where Triton is missing or broken, torch does it all, and says so."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from toughen import kernels


@pytest.fixture(autouse=True)
def forgotten():
    kernels.triton_works.cache_clear()
    yield
    kernels.triton_works.cache_clear()


def test_without_triton(monkeypatch):
    monkeypatch.setattr(kernels, "HAS_TRITON", False)
    assert not kernels.triton_works()


def test_with_a_broken_triton(monkeypatch):
    def fail():
        raise RuntimeError("no C compiler")

    runtime = ModuleType("triton.runtime")
    runtime.driver = SimpleNamespace(active=SimpleNamespace(get_current_target=fail))
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setitem(sys.modules, "triton.runtime", runtime)
    monkeypatch.setattr(kernels, "HAS_TRITON", True)
    with pytest.warns(UserWarning, match="more slowly: no C compiler"):
        assert not kernels.triton_works()
    assert not kernels.triton_works()  # told once


def test_on_a_cpu_they_are_not_at_hand():
    assert not kernels.supports(torch.zeros(1, dtype=torch.bfloat16))
