"""One step of each method: against a plain step, and against a loop of plain PyTorch.

    python benchmarks/step_time.py                                    # CPU, a small BERT
    python benchmarks/step_time.py --device cuda --size base --batch 16 --length 64 --dtype bfloat16
    python benchmarks/step_time.py --against seeds --size thin --repeats 200

The loop does the same as ours (`naive.py`), or with `--against seeds` what the public code does that people copy
(`seed_loops.py`), beside the method as users get it. The model "thin" is so narrow that a CPU waits for Python and for
launches, as a GPU does at small batches.

All three are timed in turn, in one process, on one model; medians. Ratios are what counts: to the naive loop it is the
median over the rounds of ours / naive in the same round. On CPU it is given in processor time as well, which other
programs on the machine disturb less; set OMP_NUM_THREADS=1 for that, as waiting threads use the processor too.
"""

import argparse
import copy
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification

import toughen

if __package__:
    from . import naive, seed_loops
else:
    import naive
    import seed_loops

SIZES = {"thin": (6, 32, 4), "small": (4, 256, 4), "mini": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
SPECIAL = [0, 1, 2]
# What the arithmetic costs in units of a plain step, with a backward pass as two forward passes and an inner one,
# which computes no gradient of the weights, as one.
EXPECTED = {
    "smart": (3 + 2 * 2 + 1) / 3,
    "alum": (3 + 2 * 2 + 1) / 3,
    "sift": (3 + 2 * 2 + 1) / 3,
    "vat": (3 + 2 * 2 + 1) / 3,
    "creat": (3 + 2 * 2 + 1) / 3,
    "freelb": 3.0,
    "pgd": (3 * 2 + 3) / 3,
    "neftune": 1.0,
    "temperature": 1.0,
    "bregman": (3 + 1) / 3,
}


def make(name: str, noise: torch.Tensor) -> toughen.Method:
    """The method with the naive loop's starting noise, so that both do the same work."""
    starts = {
        "smart": lambda v: 0.001 * noise * v.rms,
        "alum": lambda v: 0.001 * noise * v.rms,
        "creat": lambda v: 0.001 * noise * v.rms,
        "sift": lambda v: 0.001 * noise,
        "freelb": lambda v: 0.002 * noise,
        "pgd": lambda v: 0.002 * noise,
        "vat": lambda v: noise,
        "r3f": lambda v: 0.1 * noise * v.rms,
        "r4f": lambda v: 0.1 * noise * v.rms,
    }
    settings: dict[str, Any] = {"switch_at": 10**9} if name == "bregman" else {}
    return toughen.create_method(name, **settings, **({"init": starts[name]} if name in starts else {}))


@dataclass
class Times:
    """Milliseconds of each repeat of one step."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def timed(steps: dict[str, Callable[[], None]], repeats: int, device: str) -> dict[str, Times]:
    """Time the steps in turn, so that a slow moment of the machine hits them all; each is the first in its turn."""
    times = {key: Times() for key in steps}
    keys = list(steps)
    for repeat in range(repeats + 2):
        first = repeat % len(keys)
        for key in keys[first:] + keys[:first]:
            if device == "cuda":
                torch.cuda.synchronize()
            begin, processor = time.perf_counter(), time.process_time()
            steps[key]()
            if device == "cuda":
                torch.cuda.synchronize()
            if repeat >= 2:  # the first two warm up
                times[key].wall.append(1000 * (time.perf_counter() - begin))
                times[key].processor.append(1000 * (time.process_time() - processor))
    return times


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of the rounds' ratios."""
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--methods", nargs="*", default=None)
    parser.add_argument("--against", default="naive", choices=["naive", "seeds"])
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    layers, width, heads = SIZES[args.size]
    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).to(args.device).train()
    ids = torch.randint(5, 30000, (args.batch, args.length), device=args.device)
    ids[:, 0], ids[:, -1] = 1, 2
    labels = torch.randint(0, 2, (args.batch,), device=args.device)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    noise = torch.randn(args.batch, args.length, width, device=args.device)

    def half() -> Any:
        return torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bfloat16")

    def plain() -> None:
        with half():
            loss = model(**batch).loss
        loss.backward()
        model.zero_grad()

    rows: list[dict[str, Any]] = []
    against = f"ours_over_{args.against}"
    titles = ("plain ms", f"{args.against} ms", "ours ms", "/plain", f"/{args.against}", "of cpu", "passes")
    print(f"{'method':10}" + "".join(f"{title:>10}" for title in titles))
    for name in args.methods or (seed_loops.LOOPS if args.against == "seeds" else toughen.list_methods()):
        if args.against == "naive" and (name in ("plain", "freeat", "rdrop", "typos") or not hasattr(naive, name)):
            continue
        seeds = args.against == "seeds"
        method = toughen.create_method(name) if seeds else make(name, noise)
        loop = seed_loops.LOOPS[name](copy.deepcopy(model)) if seeds else None
        attached = method.attach(model, SimpleNamespace(all_special_ids=SPECIAL))

        def ours(attached: Any = attached) -> None:
            with half():
                attached.backward(model, batch)
            model.zero_grad()

        own = [copy.deepcopy(model).eval()] if name == "bregman" else []  # what its loop keeps between steps

        def theirs(name: str = name, own: list[Any] = own, loop: Any = loop) -> None:
            with half():
                if loop is None:
                    getattr(naive, name)(naive.Naive(model, batch, noise, SPECIAL), *own)
                else:
                    loop(batch)
            (model if loop is None else loop.model).zero_grad()

        # The naive loop runs on the bare model: the hooks are inactive outside our own passes.
        times = timed({"plain": plain, args.against: theirs, "ours": ours}, args.repeats, args.device)
        attached.detach()
        ms = {key: statistics.median(value.wall) for key, value in times.items()}
        row = {
            "method": name,
            **{f"{key}_ms": round(value, 2) for key, value in ms.items()},
            "ours_over_plain": round(ms["ours"] / ms["plain"], 3),
            against: ratio(times["ours"].wall, times[args.against].wall),
        }
        if args.device == "cpu":
            row[f"{against}_processor"] = ratio(times["ours"].processor, times[args.against].processor)
        rows.append(row)
        figures = f"{row['ours_over_plain']:10.2f}{row[against]:10.3f}"
        figures += f"{row[f'{against}_processor']:10.3f}" if args.device == "cpu" else f"{'':10}"
        print(f"{name:10}" + "".join(f"{value:10.1f}" for value in ms.values()) + figures, end="")
        print(f"{EXPECTED.get(name, 2.0):10.2f}", flush=True)
    if args.out:
        device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
        facts = {"device": device, "torch": torch.__version__, "transformers": transformers.__version__}
        facts["threads"] = torch.get_num_threads()
        shape = {"size": args.size, "batch": args.batch, "length": args.length, "dtype": args.dtype}
        args.out.write_text(json.dumps({**facts, **shape, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
