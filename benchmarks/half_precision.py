"""Is the perturbation in half precision that of float32? Every searching method, radius, dtype and way to run a step.

    python benchmarks/half_precision.py --model FOLDER --texts FILE --out benchmarks/results/half_precision_h200.json

Models are trained plainly on the texts (JSON lines with `sentence` and `label`): the pretrained one in FOLDER, a random
decoder with the tokenizer in FOLDER, and the pretrained one of base shape in `--base FOLDER` with its own. Then one
step a method on the same batches, weights and noise, without dropout. `share` is 1 - cosine with the random start,
`size` the length over the one asked for, `zero` the share of texts without a gradient, `angle` the mean angle in
degrees to the float32 perturbation, `reversed` the share of texts where it is above 90.
"""

import argparse
import gzip
import json
import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

import toughen
from toughen.cuda_graphs.compile import compile_layers

DTYPES = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
COMPILED = ("smart 0.003", "smart 0.01", "sift 0.01", "vat 0.01", "smart robust")
RATES = {"pretrained": 5e-5, "base": 2e-5, "decoder": 1e-4}
STEPS, BATCHES, ROWS, LENGTH = 200, 8, 32, 64


def models(folder: str, base: str) -> dict[str, Any]:
    sizes = {"hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 1024}
    words = AutoConfig.from_pretrained(folder).vocab_size
    decoder = AutoConfig.for_model("llama", **sizes, vocab_size=words, pad_token_id=0, num_labels=2)
    torch.manual_seed(0)

    def pretrained(place: str) -> Any:
        return AutoModelForSequenceClassification.from_pretrained(place, num_labels=2, dtype=torch.float32)

    return {
        "pretrained": lambda: pretrained(folder),
        "base": lambda: pretrained(base),
        "decoder": lambda: AutoModelForSequenceClassification.from_config(decoder),
    }


def cases(model: str) -> dict[str, Any]:
    """Methods by name, each with the radius it asks for."""
    found = {}
    for radius in (0.003, 0.01, 0.03):
        step = {"step_size": radius, "init_scale": radius / 10, "max_norm": radius}
        found[f"smart {radius:g}"] = toughen.smart(**step), radius
        found[f"vat {radius:g}"] = toughen.vat(max_norm=radius, probe=radius / 10), radius
        if model != "decoder":  # it has no norm inside its embedding block
            found[f"sift {radius:g}"] = toughen.sift(**step), radius
    found["alum"] = toughen.alum(), 0.01
    found["smart robust"] = toughen.smart("robust"), 0.03
    found["creat"] = toughen.creat(), 0.003
    found["freelb"] = toughen.freelb(), None
    found["smart+bregman"] = toughen.smart() + toughen.bregman(switch_at=5), 0.01
    return found


def without_dropout(method: Any) -> Any:
    parts = [replace(part, dropout="off") for part in getattr(method, "methods", [method])]
    return sum(parts[1:], parts[0])


def measure(model: Any, tokenizer: Any, batches: list[Any], case: Any, dtype: Any, how: str) -> dict[str, Any]:
    method, radius = case
    attached = without_dropout(method).attach(model, tokenizer, seed=3)
    step = attached.capture(model, pack=False) if how == "captured" else None
    deltas, starts, sizes, counts = [], [], [], torch.zeros(3)
    device = next(model.parameters()).device
    for batch in batches:
        for _ in range(3 if step else 1):  # eager, captured, replayed
            for generator in attached.noise.generators.values():
                generator.manual_seed(attached.noise.seed)  # the same noise for every dtype
            with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
                attached.backward(model, batch) if step is None else step(batch)
            model.zero_grad(set_to_none=True)
        one = next(each for each in attached.last_batches if each.method.search.steps)
        deltas.append(one.perturbation.at[0].detach().flatten(1).float().cpu())
        starts.append(one.perturbation.starts[0].flatten(1).float().cpu())
        report = {name.split("/")[-1]: float(value) for name, value in attached.report().items()}
        sizes.append(report["delta_relative"])
        counts += torch.tensor([ROWS, report["zero_gradient"], report["skipped"]])
        if step is not None and step.obstacle:
            raise SystemExit(step.obstacle)
    attached.detach()
    share = torch.cat([1 - F.cosine_similarity(d, s) for d, s in zip(deltas, starts, strict=True)]).mean()
    size = sum(sizes) / len(sizes)
    return {
        "share": round(float(share), 3),
        "size": round(size / radius, 4) if radius else round(size, 5),
        "zero": round(float(counts[1] / counts[0]), 4),
        "not_finite": round(float(counts[2] / counts[0]), 4),
        "deltas": deltas,
    }


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base", help="folder of a pretrained encoder of 12 x 768")
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--models", nargs="+", default=["pretrained", "base", "decoder"])
    parser.add_argument("--ways", nargs="+", default=["eager", "captured", "compiled"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if "base" in args.models and args.base is None:
        parser.error("--models base needs --base FOLDER.")
    rows = rows_of(args.texts)
    random.Random(0).shuffle(rows)

    def batch(tokenizer: Any, number: int) -> dict[str, torch.Tensor]:
        part = rows[number * ROWS : (number + 1) * ROWS]
        texts = [row["sentence"] for row in part]
        inputs = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
        inputs["labels"] = torch.tensor([row["label"] for row in part])
        return {name: value.to(args.device) for name, value in inputs.items() if name != "token_type_ids"}

    results = []
    for name in args.models:
        tokenizer = AutoTokenizer.from_pretrained(args.base if name == "base" else args.model)
        model = models(args.model, args.base)[name]().to(args.device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATES[name])
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
        for number in range(args.steps):
            with torch.autocast(args.device, torch.bfloat16):
                loss = model(**batch(tokenizer, number)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        print(name, "loss", round(float(loss.detach()), 3), flush=True)
        del loss  # its graph would keep steps from being captured
        batches = [batch(tokenizer, number) for number in range(args.steps, args.steps + BATCHES)]
        expected: dict[str, Any] = {}
        for how in args.ways:
            if how == "compiled":
                compile_layers(model)
            for dtype_name, dtype in DTYPES.items():
                if how != "eager" and dtype is None:
                    continue
                for case, method in cases(name).items():
                    if how == "compiled" and case not in COMPILED:
                        continue
                    few = batches if how == "eager" else batches[:2]
                    row = measure(model, tokenizer, few, method, dtype, how)
                    deltas = torch.cat(row.pop("deltas"))
                    if dtype is None:
                        expected[case] = deltas
                    likeness = F.cosine_similarity(deltas, expected[case][: len(deltas)])
                    row["angle"] = round(float(torch.rad2deg(likeness.clamp(-1, 1).arccos()).mean()), 1)
                    row["reversed"] = round(float((likeness < 0).float().mean()), 3)
                    results.append({"model": name, "way": how, "dtype": dtype_name, "method": case, **row})
                    print(*results[-1].values(), flush=True)
    if args.out:
        device = torch.cuda.get_device_name() if args.device == "cuda" else args.device
        head = {"device": device, "torch": torch.__version__, "steps": args.steps, "texts": ROWS * BATCHES}
        args.out.write_text(json.dumps({**head, "rows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
