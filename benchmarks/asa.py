"""What a step of adversarial self-attention costs beside a plain one, in one run on one GPU.

    python benchmarks/asa.py --out benchmarks/asa.json
    python benchmarks/asa.py --compile --cases plain asa                        # the layers compiled, of both
    python benchmarks/asa.py --cases all --attention sdpa eager                 # minutes

BERT-base from its config (random weights cost the same), batch 64 x 512, autocast bfloat16, AdamW, dropout as in the
config. "asa in torch" is without our kernels. Times are medians by CUDA events after a warm-up; memory is the peak the
allocator gave out during the timed steps, optimizer state included. `--device cpu --small` only shows that it runs.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification

import toughen
from toughen import kernels
from toughen.cuda_graphs.compile import compile_layers

GIB = 2**30
TORCH = "asa in torch"
CASES = {
    "plain": None,
    "asa": {},
    TORCH: {},
    "asa per head": {"per_head": True},
    "asa full rank": {"rank": 768},
    "asa original": {"preset": "original"},
}
USUAL = ["plain", "asa", TORCH]


def model_of(small: bool, implementation: str, device: str) -> BertForSequenceClassification:
    torch.manual_seed(0)
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = BertConfig(num_labels=2, **(size if small else {}))
    config._attn_implementation = implementation
    return BertForSequenceClassification(config).to(device).train()


def batch_of(rows: int, length: int, padding: float, device: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (rows, length), generator=generator)
    lengths = length - (torch.rand(rows, generator=generator) * padding * length).long()
    mask = (torch.arange(length) < lengths[:, None]).long()
    batch = {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "labels": torch.randint(0, 2, (rows,), generator=generator),
    }
    return {key: value.to(device) for key, value in batch.items()}


def measure(settings: dict | None, implementation: str, options: argparse.Namespace) -> dict[str, float]:
    """One case on a fresh model: milliseconds a step and peak GiB."""
    cuda = options.device.startswith("cuda")
    model = model_of(options.small, implementation, options.device)
    batch = batch_of(options.rows, options.length, options.padding, options.device)
    attached = (toughen.plain() if settings is None else toughen.asa(**settings)).attach(model, seed=0)
    if options.compile:
        compile_layers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=cuda)

    def step() -> None:
        with torch.autocast(options.device.split(":")[0], dtype=torch.bfloat16):
            attached.backward(model, batch)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(options.warm):
        step()
    found = {n: round(float(v), 6) for n, v in attached.report().items() if n in ("divergence", "budget")}
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = [timed(step, cuda) for _ in range(options.steps)]
    found |= {"ms": round(statistics.median(times), 3), "ms_min": round(min(times), 3), "ms_max": round(max(times), 3)}
    if cuda:
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / GIB, 3)
    return found


def kernels_differ(device: str) -> float:
    """How far the adversary's gradient over sdpa is from that over eager attention, relatively, without a budget.

    A fused kernel that gave the mask no gradient would show here as 1.
    """
    found = []
    for implementation in ("eager", "sdpa"):
        torch.manual_seed(0)
        size = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
        config = BertConfig(num_labels=2, initializer_range=0.2, hidden_dropout_prob=0.0, **size)
        config.attention_probs_dropout_prob, config._attn_implementation = 0.0, implementation
        model = BertForSequenceClassification(config).to(device).train()
        attached = toughen.asa(tau=0.0, visible=0.7).attach(model, seed=0)
        attached.backward(model, batch_of(8, 64, 0.5, device))
        found.append(torch.cat([p.grad.flatten() for p in attached.adversary.parameters()]).double())
    eager, fused = found
    return float((eager - fused).norm() / eager.norm())


def timed(step, cuda: bool) -> float:
    if not cuda:
        start = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - start)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that it runs")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--padding", type=float, default=0.0, help="share of a row that may be padding, at most")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=USUAL, choices=[*CASES, "all"])
    parser.add_argument("--attention", nargs="+", default=["sdpa"])
    parser.add_argument("--compile", action="store_true", help="the layers of every case")
    options = parser.parse_args()
    options.cases = list(CASES) if "all" in options.cases else options.cases
    if options.small:
        options.rows, options.length = min(options.rows, 4), min(options.length, 32)
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    differ = kernels_differ(options.device)
    print(f"the adversary's gradient over sdpa and over eager differs by {differ:.1e}", flush=True)
    results: dict[str, object] = {
        "device": name, "torch": torch.__version__, "transformers": transformers.__version__,
        "toughen": toughen.__version__, "batch": [options.rows, options.length], "padding": options.padding,
        "dtype": "autocast bfloat16", "model": "tiny" if options.small else "bert-base", "steps": options.steps,
        "kernels_differ": differ, "compiled": options.compile,
    }  # fmt: skip
    table: dict[str, dict[str, object]] = {}
    for implementation in options.attention:
        plain: dict[str, float] = {}
        for case in options.cases:
            row = run(case, implementation, options)
            if case == "plain":
                plain = row
            for key, ratio in (("ms", "time"), ("peak_gib", "memory")):
                if key in row and plain.get(key):
                    row[f"{ratio}_of_plain"] = round(row[key] / plain[key], 3)
            table[f"{implementation}: {case}"] = row
            print(f"{implementation:6} {case:16} {'compiled ' * options.compile}{row}", flush=True)
            if options.out is not None:
                save(options.out, {**results, "results": table})


def run(case: str, implementation: str, options: argparse.Namespace) -> dict:
    """A case that does not fit into memory is a result too, and must not end the run."""
    kernels.enabled = case != TORCH
    try:
        return measure(CASES[case], implementation, options)
    except torch.cuda.OutOfMemoryError as error:
        return {"failed": str(error).splitlines()[0]}
    finally:
        kernels.enabled = True
        torch.compiler.reset()
        gc.collect()
        if options.device.startswith("cuda"):
            torch.cuda.empty_cache()


def save(path: Path, results: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(unfinished, path)


if __name__ == "__main__":
    sys.exit(main())
