"""RTE from start to end: SMART with fast=True against the plain Trainer of transformers, on one GPU, in one run.

    python benchmarks/end_to_end.py --model FOLDER_OF_MINILM --data FOLDER_WITH_train.tsv_AND_dev.tsv --out FILE.json

Both get the same rows, epochs, batch size and precision. The plain Trainer pads to the longest text of a batch, as
people run it; ours pads to multiples of 32, so that there are few shapes.
"""

import argparse
import csv
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train_rows", type=int, help="only so many, to see that it runs")
    parser.add_argument("--scratch", default="end_to_end_scratch")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    train, dev = (rows_of(arguments.data / f"{split}.tsv", tokenizer) for split in ("train", "dev"))
    train = train[: arguments.train_rows]
    for fast in (False, True):  # off the clock: whoever came first would pay for the start of CUDA
        run(arguments, fast, tokenizer, train[:64], dev[:16], epochs=1)
    rows = [run(arguments, fast, tokenizer, train, dev) for fast in (False, True)]
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
