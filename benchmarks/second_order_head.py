"""Time of a classification head, forward and backward: second-order against linear; eager, compiled, captured.

    python benchmarks/second_order_head.py --out results.json

On a GPU the default is the size of the published head (batch 32 x 128 tokens x 768, q112 k48) and times are medians
over CUDA events; on a CPU everything is smaller and timed by the clock. The gradient with respect to the tokens is
included, since a backbone below would need it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from toughen.heads import SecondOrderHead


class LinearHead(nn.Module):
    """What it replaces: dropout and a linear layer on the class token."""

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(dim, num_labels)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.linear(self.dropout(tokens[:, 0]))


def make_step(
    head: nn.Module, run: Callable[..., Tensor], tokens: Tensor, mask: Tensor, autocast: bool
) -> Callable[[], None]:
    """One forward and backward with fresh gradients; `run` is the head itself or its compiled form."""
    upstream = torch.full((tokens.shape[0], 3), 1 / tokens.shape[0], device=tokens.device)
    learned = [*head.parameters(), tokens]

    def step() -> None:
        for value in learned:
            value.grad = None
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=autocast):
            logits = run(tokens, mask)
        logits.float().backward(upstream)

    return step


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def times(step: Callable[[], None], repeats: int, cuda: bool) -> list[float]:
    """Milliseconds of each of `repeats` steps, after a tenth as many to warm up (at least 3)."""
    for _ in range(max(3, repeats // 10)):
        step()
    if not cuda:
        spent: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            step()
            spent.append(1000 * (time.perf_counter() - start))
        return spent
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in pairwise(marks)]


def measure(args: argparse.Namespace) -> list[dict[str, object]]:
    """One row for each head, precision and way to run it."""
    device, cuda = torch.device(args.device), args.device.startswith("cuda")
    sizes = {"q": args.q, "k": args.k, "dropout": 0.5}
    makers: dict[str, Callable[[], nn.Module]] = {
        "linear": lambda: LinearHead(args.dim, 3),
        "second_order": lambda: SecondOrderHead(args.dim, 3, **sizes),
        "second_order, layer norm": lambda: SecondOrderHead(args.dim, 3, norm="layer", **sizes),
        "original-text": lambda: SecondOrderHead(args.dim, 3, preset="original-text", **sizes),
    }
    lengths = torch.linspace(args.length // 4, args.length, args.batch).long()
    mask = (torch.arange(args.length) < lengths[:, None]).long().to(device)
    rows: list[dict[str, object]] = []
    for name, make in makers.items():
        for autocast in (False, True):
            for mode in args.modes.split(","):
                if mode.endswith("captured") and not cuda:
                    continue
                torch.manual_seed(0)
                torch._dynamo.reset()
                head = make().to(device).train()
                tokens = torch.randn(args.batch, args.length, args.dim, device=device, requires_grad=True)
                run = torch.compile(head, fullgraph=True) if mode.startswith("compiled") else head
                step = make_step(head, run, tokens, mask, autocast)
                row: dict[str, object] = {
                    "head": name,
                    "precision": "bf16 autocast" if autocast else "fp32",
                    "mode": mode,
                }
                try:
                    ready = capture(step) if mode.endswith("captured") else step
                    spent = sorted(times(ready, args.repeats, cuda))
                except Exception as error:  # one way that fails must not lose the others
                    row["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                else:
                    row["median_ms"] = round(statistics.median(spent), 4)
                    row["p10_ms"], row["p90_ms"] = (round(spent[len(spent) * n // 10], 4) for n in (1, 9))
                print(json.dumps(row), flush=True)
                rows.append(row)
    return rows


def main() -> None:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--batch", type=int, default=32 if cuda else 8)
    parser.add_argument("--length", type=int, default=128 if cuda else 32)
    parser.add_argument("--dim", type=int, default=768 if cuda else 128)
    parser.add_argument("--q", type=int, default=112 if cuda else 16)
    parser.add_argument("--k", type=int, default=48 if cuda else 8)
    parser.add_argument("--repeats", type=int, default=300 if cuda else 20)
    parser.add_argument("--modes", default="eager,captured,compiled,compiled+captured" if cuda else "eager")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = {
        "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else "cpu",
        "torch": torch.__version__,
        "shape": {name: getattr(args, name) for name in ("batch", "length", "dim", "q", "k")},
        "rows": measure(args),
    }
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
