"""Captured updates with compiled layers, and what each of three parts does for them.

    python benchmarks/fast_goals.py --out goals.json                                # minutes, one GPU
    python benchmarks/fast_goals.py --cases 2 --parts none,all --out goals.json     # one line of the table
    python benchmarks/fast_goals.py --cases 0 --profile smart --out goals.json      # and what binds there

The parts: "search", whose compiled backward pass leaves the gradients of the weights out; "casts", of weights once a
step; "branches", for the clean pass beside the first perturbed one. "none" is without them, "all" with all three.
`--minutes` starts no further row after so long. Each row is an update as `toughen bench` times it, with its goal.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from toughen.cuda_graphs import compile_layers, uncompile_layers
from toughen.registry import create_method
from toughen.timing import step_time

METHODS = ("plain", "smart", "freelb", "sift", "asa")
CASES: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("bert-base", "16x64", (4.5, 9.5, 13, 9.5, 10)),
    ("bert-base", "64x512/3", (32, 90, 96, 90, 100)),
    ("minilm", "16x64", (1.5, 3.2, 4.5, 3.2, 3.5)),
    ("bert-base", "32x128", (8.5, 20, 24, 20, 19)),
    ("bert-large", "32x128", (22, 52, 62, 52, 48)),
)
OFF = {
    "search": ("toughen.engine.step.is_compiled", lambda _model: False),
    "casts": ("toughen.cuda_graphs.step.half_weights_of", lambda *_: None),
    "branches": ("toughen.engine.side_stream.MOST_TOKENS", 0),
}


# The parts that do something for a method; all three for the others.
EFFECTIVE = {"plain": {"casts"}, "freelb": {"casts"}, "asa": {"casts", "branches"}}


def on(parts: str) -> set[str]:
    return set(OFF) if parts == "all" else set(parts.split("+")) & set(OFF)


@contextmanager
def only(parts: set[str]) -> Iterator[None]:
    """Switch off the other parts."""
    with ExitStack() as stack:
        for name in set(OFF) - parts:
            stack.enter_context(patch(*OFF[name]))
        yield


def rows_of(case: int, parts: Sequence[str], methods: Sequence[str], args: argparse.Namespace) -> Iterator[Any]:
    """Time one model and shape. The model stays, so that it is compiled once for all methods."""
    name, shape, goals = CASES[case]
    name, shape = (args.model or name), (args.shape or shape)
    half = "bfloat16" if args.device == "cuda" else "float32"
    mode = "fast" if args.device == "cuda" else "eager"
    settings = step_time._Settings(args.device, half, args.repeats, args.device == "cuda", None)
    torch.manual_seed(0)
    model = step_time.load_model(name).to(args.device)
    timed: list[Any] = []
    for each in parts:
        for method in methods:
            effective = method, on(each) & EFFECTIVE.get(method, set(OFF))
            if effective in timed:
                continue
            timed.append(effective)
            with only(on(each)):
                row = step_time._measure(model, name, method, step_time.Shape.parse(shape), mode, settings)
            yield {**row.to_dict(), "parts": each, "goal": goals[METHODS.index(method)]}


def profile(case: int, method: str, device: str) -> list[dict[str, Any]]:
    """Name the kernels of three captured updates: milliseconds of one, and how many there are."""
    from torch.profiler import ProfilerActivity

    name, shape, _ = CASES[case]
    settings = step_time._Settings(device, "bfloat16", 1, True, None)
    model = step_time.load_model(name).to(device)
    with create_method(method).attach(model, step_time.word_tokenizer(model), total_steps=100) as attached:
        compile_layers(model)
        step = step_time._TrainingStep(attached, model, step_time.Shape.parse(shape), settings, fast=True)
        for _ in range(step_time.WARM_UP):
            step()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(3):
                step()
            torch.cuda.synchronize()
        step.note()
    uncompile_layers(model)
    events = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    return [
        {"kernel": event.key[:120], "ms": round(event.self_device_time_total / 3000, 4), "count": event.count / 3}
        for event in events[:25]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="0,1,2,3,4", help="Lines of the table, by number.")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--parts", default="none,all,search,search+casts", help="none, all, or some joined by +.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", help="Another model for every case, such as tiny.")
    parser.add_argument("--shape", help="Another shape for every case.")
    parser.add_argument("--profile", metavar="METHOD", help="Profile this method for the first case as well.")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [int(case) for case in args.cases.split(",")]
    found: dict[str, Any] = {"torch": torch.__version__, "rows": []}
    until = time.monotonic() + 60 * args.minutes

    def save() -> None:
        if args.out is not None:
            args.out.write_text(json.dumps(found, indent=1) + "\n")

    for case in cases:
        rows = rows_of(case, args.parts.split(","), args.methods.split(","), args)
        while time.monotonic() < until and (row := next(rows, None)) is not None:
            found["rows"].append({**row, "seconds": round(time.monotonic() - until + 60 * args.minutes, 1)})
            print(json.dumps(found["rows"][-1]), flush=True)
            save()
    if args.profile:
        found["profile"] = profile(cases[0], args.profile, args.device)
        save()
        print(json.dumps(found["profile"]))


if __name__ == "__main__":
    main()
