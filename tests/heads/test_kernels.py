"""The Triton kernels against ordinary operations in float64: on a GPU, and on a CPU through Triton's interpreter."""

import os
import subprocess
import sys

import pytest
import torch

from toughen.heads import SecondOrderHead, pooling

CASES = {
    "usual": {},
    "wide": {"q": 112, "k": 48, "lengths": (20, 7)},
    "guard": {"eps": 1e-2, "alpha": 0.3, "relu": False},
    "powers": {"alpha": 0.0},
    "linear": {"alpha": 1.0, "eps": 1e-2},
    "no mask": {"lengths": None},
    "whole numbers": {"mask_type": torch.int64},
    "empty and one token": {"lengths": (0, 1, 40)},
    "half": {"dtype": torch.bfloat16, "close": 2e-2},
}


def check(device, q=5, k=3, relu=True, alpha=0.5, eps=0.0, lengths=(40, 33, 2), mask_type=None, **more):
    dtype, close = more.get("dtype", torch.float32), more.get("close", 2e-5)
    draw = torch.Generator().manual_seed(0)
    rows, count = len(lengths or (1, 2)), max(lengths or (17,))
    x = torch.randn(rows, count, q + k, generator=draw).to(device, dtype)
    start, upstream = torch.randn(q, generator=draw).to(device), torch.randn(rows, q, k, generator=draw).to(device)
    mask = None
    if lengths:
        mask = (torch.arange(count) < torch.tensor(lengths)[:, None]).to(device, mask_type or torch.bool)
    assert pooling._kernels_for(x, q) is not None
    found = []
    for pool, precision in ((pooling.fused_pool, dtype), (pooling.reference_pool, torch.float64)):
        tokens, first = x.to(precision).requires_grad_(), start.to(torch.promote_types(precision, torch.float32))
        out = pool(tokens, mask, first.requires_grad_(), q, relu, alpha, eps)
        found.append((out, *torch.autograd.grad(out, (tokens, first), upstream.to(out.dtype))))
    for ours, plain in zip(*found, strict=True):
        error = (ours.double() - plain).abs().max() / plain.abs().max()
        assert error < close, error
    assert found[0][1].dtype == dtype
    if mask is not None:
        assert not found[0][1][mask == 0].any()


def check_zeros_and_what_is_no_number(device):
    start = torch.ones(3, device=device, requires_grad=True)
    zeros = torch.zeros(2, 4, 5, device=device, requires_grad=True)
    pooling.fused_pool(zeros, None, start, 3, True, 0.5, 0.0).sum().backward()
    assert zeros.grad.isfinite().all()
    assert not start.grad.any()
    start.grad = None
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills new memory, so that a gradient nobody wrote shows
    pooling.fused_pool(zeros[:, :0], None, start, 3, True, 0.5, 0.0).sum().backward()
    torch.use_deterministic_algorithms(False)
    assert start.grad.eq(0).all()
    spoilt = torch.full((1, 4, 5), float("nan"), device=device)
    assert pooling.fused_pool(spoilt, None, start, 3, True, 0.5, 0.0).isnan().all()


def check_gradients_of_gradients(device):
    def penalty(pool, x, start):
        (first,) = torch.autograd.grad(pool(x, None, start, 3, True, 0.5, 0.0).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), (x, start))

    x = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    start = torch.arange(1.0, 4.0, device=device).requires_grad_()
    ours, plain = (penalty(pool, x, start) for pool in (pooling.fused_pool, pooling.reference_pool))
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


def check_memory_that_is_not_aligned(device):
    """The gradient of one row that was concatenated begins in the middle of a tensor."""
    torch.manual_seed(0)
    head = SecondOrderHead(5, 2, q=3, k=2, dropout=0.0, fusion="concat").to(device)
    tokens = torch.randn(1, 6, 5, device=device)
    results = []
    for run in (head, head, head.double()):
        run.zero_grad()
        run(tokens.to(run.word_fc.weight.dtype)).square().sum().backward()
        results.append([value.grad.double() for value in run.parameters()])
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[1], results[2], rtol=1e-4, atol=1e-4)


CHECKS = [check_zeros_and_what_is_no_number, check_gradients_of_gradients, check_memory_that_is_not_aligned]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES)
def test_kernels_on_a_gpu(case):
    pytest.importorskip("triton", reason="needs Triton")
    check("cuda", **CASES[case])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("one", CHECKS)
def test_special_cases_on_a_gpu(one):
    pytest.importorskip("triton", reason="needs Triton")
    one("cuda")


def test_kernels_by_interpreter():
    pytest.importorskip("triton", reason="needs Triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_machine_where_triton_does_not_work(monkeypatch):
    monkeypatch.setattr(pooling, "triton_works", lambda: False)
    assert pooling._kernels.__wrapped__() is None


def interpreted() -> None:
    from toughen.heads import kernels

    pooling._kernels_for = lambda x, q: None if x.dtype == torch.float64 else kernels
    for case in CASES.values():
        check("cpu", **case)
    for one in CHECKS:
        one("cpu")


if __name__ == "__main__":
    interpreted()
