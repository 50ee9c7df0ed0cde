"""Measure a hardening against its bare loop: the student forward and backward, the teacher forward, nothing else.

    python -m benchmarks.harden_speed --model FOLDER --texts FILE --out results/harden_speed_cpu.json

All run on the same batches. Processor seconds are those of the training process alone: what a worker spends is not in
them. On a GPU read the wall seconds, and give as many workers as the machine has processors to spare.
"""

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers.trainer_utils import set_seed

from toughen.hardening.api import HardenSpec
from toughen.hardening.encoder import Encoder, Weights, loss_parts, vectors
from toughen.hardening.student import BANK, HardeningTrainer, arguments
from toughen.hardening.texts import Collator, EditedTexts
from toughen.internal.rng import without_dropout
from toughen.text.token_words import TokenWords
from toughen.text.views import TextEditor


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Return processor and wall seconds of a run."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 8])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    set_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = Encoder.find(given.model, None)
    tokenizer, teacher = encoder.load_tokenizer(), encoder.load().to(device).eval().requires_grad_(False)
    editor = TextEditor(TokenWords(tokenizer), ("typos", "obfuscation"), 0.6)
    texts = EditedTexts([given.texts], None, tokenizer, editor, frozenset(), 64, 0.25, 0, given.batch_size)
    collator = Collator(tokenizer.pad_token_id or 0)
    bank = vectors(teacher, tokenizer, texts.first(BANK), encoder.pooling, 64).to(device)

    rows: list[dict[str, Any]] = []
    count = given.steps * given.batch_size
    making, _ = timed(lambda: rows.extend(islice(texts, count)))
    batches = [collator(rows[start : start + given.batch_size]) for start in range(0, count, given.batch_size)]
    batches = [{name: value.to(device) for name, value in batch.items()} for batch in batches]

    def bare(student: torch.nn.Module) -> None:
        half = device == "cuda"
        for batch in batches:
            with without_dropout(student), torch.autocast(device, torch.bfloat16, enabled=half):
                parts = loss_parts(student, teacher, batch, encoder.pooling, Weights(), bank)
                torch.stack(list(parts.values())).sum().backward()
            student.zero_grad()

    student = copy.deepcopy(teacher).requires_grad_(True).train()
    bare(student) if device == "cuda" else None
    cpu, wall = timed(lambda: bare(student))
    result: dict[str, Any] = {
        "model": Path(given.model).name,
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} thread",
        "batch_size": given.batch_size,
        "steps": given.steps,
        "texts_a_second_of_one_worker": round(count / making),
        "bare": {"cpu_seconds": round(cpu, 2), "wall_seconds": round(wall, 2)},
    }
    for workers in given.workers:
        spec = HardenSpec(
            given.model, [str(given.texts)], batch_size=given.batch_size, steps=given.steps, workers=workers
        )
        with tempfile.TemporaryDirectory() as folder:
            settings = arguments(spec, Path(folder), {"save_strategy": "no", "disable_tqdm": True, "optim": "sgd"})
            trainer = HardeningTrainer(
                teacher,
                encoder,
                Weights(),
                model=copy.deepcopy(teacher).requires_grad_(True),
                args=settings,
                train_dataset=texts,
                data_collator=collator,
            )
            used, took = timed(trainer.train)
        result[f"{workers} workers"] = {
            **{"cpu_seconds": round(used, 2), "wall_seconds": round(took, 2)},
            **{"share_of_bare_cpu": round(cpu / used, 3), "share_of_bare_wall": round(wall / took, 3)},
        }
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
