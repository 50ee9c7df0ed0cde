"""One arm of the demo: one method, one seed, trained and evaluated on every split."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..evaluation.outputs import Outputs
from ..registry import create_method
from .encoder import SENTIMENT, Encoder
from .grammar import LABELS, SPLITS, Row

MAX_LENGTH = 48


@dataclass(frozen=True)
class Settings:
    """The same budget for every method: rows, epochs and batch; only the method differs."""

    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 1e-4
    warmup: float = 0.1


@dataclass(frozen=True)
class Arm:
    """What one training gave: outputs on every split, the log, and what it cost."""

    method: str
    seed: int
    outputs: Mapping[str, Outputs]
    log: Sequence[Mapping[str, Any]]
    seconds: float
    processor: float
    """Processor seconds of the steps: unlike seconds, the same on a busy machine."""
    steps: int


def train_arm(name: str, seed: int, data: Mapping[str, Sequence[Row]], encoder: Encoder, settings: Settings) -> Arm:
    """Fine-tune with the method of this name and look at every split."""
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    from ..tasks import collator, compute_metrics
    from ..trainers.hf import robust

    tokenizer = encoder.tokenizer()
    splits = {split: tokenised(tokenizer, rows) for split, rows in data.items()}

    class Clock(TrainerCallback):
        """Seconds inside steps alone: evaluation does not count as cost of the method."""

        seconds, processor, began = 0.0, 0.0, (0.0, 0.0)

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = (time.perf_counter(), time.process_time())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.seconds += time.perf_counter() - self.began[0]
            self.processor += time.process_time() - self.began[1]

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch_size,
            per_device_eval_batch_size=64,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup,
            seed=seed,
            logging_steps=5,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        made: Any = robust(Trainer)
        trainer: Any = made(
            encoder.model(seed),
            arguments,
            train_dataset=splits["train"],
            eval_dataset=splits["clean"],
            data_collator=collator(SENTIMENT, tokenizer),
            processing_class=tokenizer,
            compute_metrics=compute_metrics(SENTIMENT),
            callbacks=[clock],
            method=create_method(name),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        outputs = {split: _outputs(trainer, splits[split]) for split in SPLITS}
    return Arm(
        name, seed, outputs, trainer.state.log_history, clock.seconds, clock.processor, trainer.state.global_step
    )


def tokenised(tokenizer: Any, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as the collator takes them."""
    encoded = tokenizer([row["text"] for row in rows], truncation=True, max_length=MAX_LENGTH)
    labels = [LABELS.index(row["label"]) for row in rows]
    ids, masks = encoded["input_ids"], encoded["attention_mask"]
    columns = zip(ids, masks, labels, strict=True)
    return [{"input_ids": i, "attention_mask": m, "labels": label} for i, m, label in columns]


def _outputs(trainer: Any, split: Sequence[Mapping[str, Any]]) -> Outputs:
    found = trainer.predict(split)
    return Outputs(found.predictions, found.label_ids, [len(row["input_ids"]) for row in split])


def quiet() -> None:
    """No progress bars and no load report: the demo prints its own lines."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def spare_threads() -> int | None:
    """Use one thread where other programs keep the cores busy: two that wait for each other are slower than one."""
    import torch

    cores = os.cpu_count() or 1
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > cores / 2
    if not busy or torch.get_num_threads() == 1:
        return None
    torch.set_num_threads(1)
    return 1
