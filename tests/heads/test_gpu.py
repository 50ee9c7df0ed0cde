"""The head on a GPU: the same numbers as on a CPU, and a whole step as one CUDA graph."""

import pytest
import torch

from toughen.heads import SecondOrderHead

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def ready(device, dtype=torch.float64):
    torch.manual_seed(0)
    head = SecondOrderHead(64, 3, q=16, k=8, dropout=0.0).to(device, dtype)
    tokens = torch.randn(8, 12, 64).to(device, dtype).requires_grad_()
    mask = (torch.arange(12) < torch.tensor([12, 9, 7, 5, 3, 2, 1, 1])[:, None]).to(device)
    return head, tokens, mask


def step(head, tokens, mask):
    for value in (*head.parameters(), tokens):
        value.grad = None
    logits = head(tokens, mask)
    logits.square().sum().backward()
    return [logits.detach(), *(value.grad for value in (*head.parameters(), tokens))]


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_same_as_on_a_cpu(dtype, close):
    for ours, expected in zip(step(*ready("cuda", dtype)), step(*ready("cpu", dtype)), strict=True):
        torch.testing.assert_close(ours.cpu(), expected, rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # with kernels of Triton and without
def test_one_step_is_captured_whole(dtype):
    head, tokens, mask = ready("cuda", dtype)
    expected = [value.clone() for value in step(head, tokens, mask)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(head, tokens, mask)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(head, tokens, mask)
    graph.replay()
    torch.cuda.synchronize()
    for ours, plain in zip(captured, expected, strict=True):
        torch.testing.assert_close(ours, plain)
