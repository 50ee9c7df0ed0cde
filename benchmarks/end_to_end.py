"""RTE from start to end: SMART with fast=True against the plain Trainer of transformers, on one GPU, in one run.

    python benchmarks/end_to_end.py --model FOLDER_OF_MINILM --data FOLDER_WITH_train.tsv_AND_dev.tsv --out FILE.json

Both get the same rows, epochs, batch size and precision. The plain Trainer pads to the longest text of a batch, as
people run it; ours pads to multiples of 32, so that there are few shapes. With `--cli` both run as whole commands, each
timed from the start of Python to its end: this script with the plain Trainer alone, which scores once and saves
nothing, and `toughen train --method smart --fast`, which scores and saves after every epoch and writes its report.
"""

import argparse
import csv
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train_rows", type=int, help="only so many, to see that it runs")
    parser.add_argument("--scratch", default="end_to_end_scratch")
    parser.add_argument("--cli", action="store_true", help="as whole commands; needs toughen[cli]")
    parser.add_argument("--plain_alone", action="store_true", help="the plain Trainer, once, with nothing before it")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    train, dev = (rows_of(arguments.data / f"{split}.tsv", tokenizer) for split in ("train", "dev"))
    train = train[: arguments.train_rows]
    if arguments.plain_alone:
        print(json.dumps(run(arguments, False, tokenizer, train, dev)))
        return
    rows = whole_commands(arguments) if arguments.cli else both(arguments, tokenizer, train, dev)
    facts = {
        "device": torch.cuda.get_device_name() if CUDA else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "epochs": arguments.epochs,
    }
    for row in rows:
        print(row, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
