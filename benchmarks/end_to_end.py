"""RTE from start to end: SMART with fast=True against the plain Trainer of transformers, on one GPU, in one run.

    python benchmarks/end_to_end.py --model FOLDER_OF_MINILM --data FOLDER_WITH_train.tsv_AND_dev.tsv --out FILE.json

Both get the same rows, epochs, batch size and precision. The plain Trainer pads to the longest text of a batch, as
people run it; ours pads to multiples of 32, so that there are few shapes. With `--cli` both run as whole commands, each
timed from the start of Python to its end: this script with the plain Trainer alone, which scores once and saves
nothing, and `toughen train --method smart --fast`, which scores and saves after every epoch and writes its report.

    python -m benchmarks.end_to_end --made minilm,bert-base --out FILE.json

needs neither data nor a model: rows as long as RTE's and as many, random weights, three epochs of SMART. Each run is a
command of its own, `fast=False` and then `fast="auto"`, timed from its start to its end (H200: under two minutes).

    python -m benchmarks.end_to_end --calibrate bert-base --out FILE.json

measures what `toughen/cuda_graphs/estimate.py` takes for granted: the seconds of a compilation, those of a capture, and
what compiled layers save of a captured update of SMART at three shapes (H200: two to four minutes).
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

import toughen
from toughen.cuda_graphs import GraphCache
from toughen.timing.step_time import Shape, load_model, make_batch, word_tokenizer

CUDA = torch.cuda.is_available()
LABELS = {"entailment": 0, "not_entailment": 1}


def rows_of(path: Path, tokenizer: Any) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = tokenizer([r["sentence1"] for r in rows], [r["sentence2"] for r in rows], truncation=True, max_length=256)
    return [
        {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds, "labels": LABELS[row["label"]]}
        for ids, mask, kinds, row in zip(
            texts["input_ids"], texts["attention_mask"], texts["token_type_ids"], rows, strict=True
        )
    ]


def run(
    arguments: argparse.Namespace, fast: bool, tokenizer: Any, train: Any, dev: Any, epochs: int | None = None
) -> dict[str, Any]:
    set_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=2, dtype=torch.float32)
    args = TrainingArguments(
        arguments.scratch,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=64,
        num_train_epochs=epochs or arguments.epochs,
        learning_rate=1e-4,
        bf16=CUDA,
        report_to=[],
        save_strategy="no",
        logging_steps=100,
        disable_tqdm=True,
        dataloader_num_workers=2,
        seed=1,
    )
    collate = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=32 if fast else None)
    kind: Any = toughen.robust(Trainer) if fast else Trainer
    own = {"method": toughen.smart(), "fast": True} if fast else {}
    trainer = kind(model, args, train_dataset=train, data_collator=collate, processing_class=tokenizer, **own)
    begin = time.perf_counter()
    trainer.train()
    if CUDA:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    logits = trainer.predict(dev).predictions
    accuracy = float((torch.tensor(logits).argmax(-1) == torch.tensor([row["labels"] for row in dev])).float().mean())
    name = "smart, fast" if fast else "plain Trainer"
    return {
        "run": name,
        "seconds": round(seconds, 1),
        "steps": trainer.state.global_step,
        "accuracy": round(accuracy, 4),
        "captured": getattr(trainer, "fast_steps", ""),
    }


def both(arguments: argparse.Namespace, tokenizer: Any, train: Any, dev: Any) -> list[dict[str, Any]]:
    for fast in (False, True):  # off the clock: whoever came first would pay for the start of CUDA
        run(arguments, fast, tokenizer, train[:64], dev[:16], epochs=1)
    return [run(arguments, fast, tokenizer, train, dev) for fast in (False, True)]


def timed(name: str, command: list[str]) -> tuple[float, str]:
    """How long a command takes from start to end, and what it says."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = round(time.perf_counter() - begin, 1)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return seconds, done.stdout + done.stderr


def whole_commands(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    common = ["--model", str(arguments.model)]
    script = [sys.executable, __file__, *common, "--data", str(arguments.data), "--epochs", str(arguments.epochs)]
    with tempfile.TemporaryDirectory() as folder:
        train = [sys.executable, "-m", "toughen.cli.main", "train", *common, "--method", "smart", "--fast", "true"]
        train += ["--data.train_file", str(arguments.data / "train.tsv")]
        train += ["--data.validation_file", str(arguments.data / "dev.tsv")]
        train += ["--data.text_column", "sentence1,sentence2", "--data.label_column", "label"]
        train += ["--data.max_length", "256", "--data.cache_dir", f"{folder}/cache", "--output_dir", f"{folder}/run"]
        train += ["--train.epochs", str(arguments.epochs), "--train.batch_size", "16", "--train.learning_rate", "1e-4"]
        if arguments.train_rows:
            train += ["--data.limit", str(arguments.train_rows)]
            script += ["--train_rows", str(arguments.train_rows)]
        seconds, said = timed("plain", [*script, "--plain_alone", "--scratch", f"{folder}/plain"])
        plain = json.loads(next(line for line in said.splitlines() if line.startswith('{"run"')))
        rows = [{**plain, "run": "plain Trainer, whole script", "seconds": seconds, "training": plain["seconds"]}]
        seconds, said = timed("toughen train", train)
        found = json.loads(Path(f"{folder}/run/results.json").read_text())
    rows.append(
        {
            "run": "toughen train --method smart --fast, whole command",
            "seconds": seconds,
            "training": round(found["seeds"][0]["train_seconds"], 1),
            "accuracy": round(found["mean"]["accuracy"], 4),
            "captured": next((line.strip() for line in said.splitlines() if "captured" in line), ""),
        }
    )
    return rows


def made_rows(count: int, vocabulary: int, seed: int) -> list[dict[str, Any]]:
    """Rows as long as RTE's: half have up to 57 tokens, one in a hundred more than 160."""
    rng = torch.Generator().manual_seed(seed)
    lengths = (4.05 + 0.45 * torch.randn(count, generator=rng)).exp().clamp(16, 256).long().tolist()
    labels = torch.randint(0, 2, (count,), generator=rng).tolist()
    rows = []
    for length, label in zip(lengths, labels, strict=True):
        ids = torch.randint(110, vocabulary, (length,), generator=rng).tolist()
        rows.append({"input_ids": ids, "attention_mask": [1] * length, "labels": label})
    return rows


def made_run(arguments: argparse.Namespace) -> dict[str, Any]:
    """One training on made rows, with the moments at which steps were captured."""
    set_seed(1)
    model: Any = load_model(arguments.made)
    tokenizer = word_tokenizer(model)
    args = TrainingArguments(
        arguments.scratch,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=64,
        num_train_epochs=arguments.epochs,
        eval_strategy="epoch",
        bf16=CUDA,
        report_to=[],
        save_strategy="no",
        logging_steps=100,
        disable_tqdm=True,
        seed=1,
        use_cpu=not CUDA,
    )
    captures: list[tuple[float, float]] = []
    capture: Any = GraphCache._capture

    def timed_capture(*given: Any) -> Any:
        start = time.perf_counter()
        graph = capture(*given)
        captures.append((start, time.perf_counter() - start))
        return graph

    patched: Any = GraphCache
    patched._capture = timed_capture
    vocabulary = model.config.vocab_size
    trainer: Any = toughen.robust(Trainer)(
        model,
        args,
        train_dataset=made_rows(arguments.train_rows or 2490, vocabulary, 1),
        eval_dataset=made_rows(277, vocabulary, 2),
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        method=toughen.smart(),
        fast={"auto": "auto", "true": True, "false": False}[arguments.fast],
    )
    begin = time.perf_counter()
    trainer.train()
    if CUDA:
        torch.cuda.synchronize()
    return {
        "training": round(time.perf_counter() - begin, 2),
        "updates": trainer.state.global_step,
        "captured": trainer.fast_steps,
        "captures": len(captures),
        "first_captured_after": round(captures[0][0] - begin, 2) if captures else None,
        "in_captures": round(sum(seconds for _, seconds in captures), 2),
    }


def made_commands(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each size with fast steps and without, as commands; the first one of all is off the clock: it fills caches."""
    sizes = arguments.made.split(",")
    common = [sys.executable, "-m", "benchmarks.end_to_end", "--epochs", str(arguments.epochs)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:

        def command(size: str, fast: str, train_rows: int | None) -> list[str]:
            more = ["--train_rows", str(train_rows)] if train_rows else []
            return [*common, "--made", size, "--fast", fast, "--alone", "--scratch", folder, *more]

        timed("warm-up", command(sizes[0], "false", 32))
        for size in sizes:
            for fast in ("false", "auto"):
                seconds, said = timed(f"{size}, {fast}", command(size, fast, arguments.train_rows))
                found = json.loads(next(line for line in said.splitlines() if line.startswith('{"training"')))
                rows.append({"model": size, "fast": fast, "seconds": seconds, **found})
            eager, fast_row = rows[-2:]
            fast_row["of_eager"] = round(fast_row["seconds"] / eager["seconds"], 3)
            print(eager, fast_row, sep="\n", flush=True)
    return rows


def calibrate(size: str) -> list[dict[str, Any]]:
    rows = []
    for shape in ("16x64", "32x128", "64x512/3") if CUDA else ("2x8",):
        model: Any = load_model(size).to("cuda" if CUDA else "cpu")
        parsed = Shape.parse(shape)
        batch = dict(make_batch(parsed, model.config.vocab_size, 2))
        if CUDA:
            batch = {name: value.pin_memory() for name, value in batch.items()}
        with toughen.smart().attach(model, word_tokenizer(model)) as attached:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
            captured: Any = attached.capture(model, optimizer=optimizer, max_norm=1.0)

            def step(captured: Any = captured, batch: Any = batch) -> float:
                begin = time.perf_counter()
                with torch.autocast("cuda", torch.bfloat16, enabled=CUDA):
                    captured(batch)
                if CUDA:
                    torch.cuda.synchronize()
                return time.perf_counter() - begin

            first = [step() for _ in range(4)]
            plain = statistics.median(step() for _ in range(20))
            captured.compile(**({} if CUDA else {"backend": "eager"}))
            compiling = [step() for _ in range(4)]
            compiled = statistics.median(step() for _ in range(20))
            config = model.config
            rows.append(
                {
                    "model": size,
                    "shape": shape,
                    "first_steps": [round(each, 3) for each in first],
                    "captured_ms": round(1000 * plain, 2),
                    "compile_seconds": round(sum(compiling[:2]), 1),
                    "compiled_ms": round(1000 * compiled, 2),
                    "saved_per_value": (plain - compiled)
                    / (captured.tokens * config.hidden_size * config.num_hidden_layers * 5 / 3),
                    "obstacle": captured.obstacle,
                }
            )
            captured.close()
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--made", metavar="SIZES", help="made rows and random weights: minilm,bert-base")
    parser.add_argument("--calibrate", metavar="SIZE", help="measure what the estimates take for granted")
    parser.add_argument("--fast", choices=("auto", "true", "false"), default="auto", help="of a made run alone")
    parser.add_argument("--alone", action="store_true", help="one made run, in this process")
    parser.add_argument("--epochs", type=int, help="8, with --made 3")
    parser.add_argument("--train_rows", type=int, help="only so many, to see that it runs")
    parser.add_argument("--scratch", default="end_to_end_scratch")
    parser.add_argument("--cli", action="store_true", help="as whole commands; needs toughen[cli]")
    parser.add_argument("--plain_alone", action="store_true", help="the plain Trainer, once, with nothing before it")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    arguments.epochs = arguments.epochs or (3 if arguments.made else 8)
    if arguments.made and arguments.alone:
        print(json.dumps(made_run(arguments)))
        return
    if arguments.made or arguments.calibrate:
        write(arguments, made_commands(arguments) if arguments.made else calibrate(arguments.calibrate))
        return
    if arguments.model is None or arguments.data is None:
        parser.error("give --model and --data, or --made")
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    train, dev = (rows_of(arguments.data / f"{split}.tsv", tokenizer) for split in ("train", "dev"))
    train = train[: arguments.train_rows]
    if arguments.plain_alone:
        print(json.dumps(run(arguments, False, tokenizer, train, dev)))
        return
    rows = whole_commands(arguments) if arguments.cli else both(arguments, tokenizer, train, dev)
    for row in rows:
        print(row, flush=True)
    write(arguments, rows)


def write(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    facts = {
        "device": torch.cuda.get_device_name() if CUDA else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "epochs": arguments.epochs,
    }
    text = json.dumps({**facts, "rows": rows}, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    elif arguments.made or arguments.calibrate:
        print(text)


if __name__ == "__main__":
    main()
