"""The end of a seed: scores and predictions of its best epoch, its model as a plain checkpoint, its result."""

import math
import os
from typing import Any

from ..internal.atomic import move_folder, remove_folder
from ..tasks import Data
from . import predictions
from .diagnostics import write_diagnostics
from .errors import RunError
from .job import Job
from .modeling import merged
from .results import SeedResult


def finish_seed(job: Job, trainer: Any, rows: Any, seconds: float, in_steps: float) -> SeedResult:
    """Scores and predictions of the best epoch, the model as a plain checkpoint, then the seed's result."""
    import torch

    task, main = job.data.task, trainer.is_world_process_zero()
    metrics = _scored(job, trainer, job.data, rows, "")
    for ending, data in job.material.also.items():
        metrics |= _scored(job, trainer, data, getattr(data, job.config.data.eval_split), f"_{ending}")
    write_diagnostics(job, trainer, rows)
    _save_model(job, trainer, main)
    state = trainer.state
    scored = [row for row in state.log_history if f"eval_{task.selects}" in row]
    best = next((row["epoch"] for row in scored if row["step"] == state.best_global_step), None)
    done = max(state.global_step - getattr(trainer, "_initial_global_step", 0), 1)
    peak = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None
    scores = {name: float(value) for name, value in metrics.items()}
    result = SeedResult(
        seed=job.seed,
        metrics=scores,
        best_epoch=float(best if best is not None else state.epoch or 0.0),
        train_seconds=seconds,
        passes=trainer.passes,
        seconds_per_step=in_steps / done,
        peak_memory_mb=peak,
        folder=job.folder.relative_to(job.run.path).as_posix(),
    )
    if not all(math.isfinite(value) for value in scores.values()):
        raise RunError(f"seed {job.seed}: a score is not a number: {scores}.")
    if main:
        job.run.write_seed_result(job.arm, result)
        if not job.config.train.keep_checkpoints:
            for folder in job.folder.glob("checkpoint-*"):
                remove_folder(folder)
    return result


def _scored(job: Job, trainer: Any, data: Data, rows: Any, ending: str) -> dict[str, float]:
    """Predictions of every split as a table, and the scores of those with labels: `accuracy_mm`, `test_accuracy_mm`."""
    metrics: dict[str, float] = {}
    for name, split in data.splits.items():
        if name == "train" and split is not rows:
            continue
        said = trainer.predict(split, metric_key_prefix="eval")
        logits = said.predictions[0] if isinstance(said.predictions, tuple) else said.predictions
        if trainer.is_world_process_zero():
            table = job.folder / "predictions" / f"{name}{ending}.tsv"
            predictions.write(table, data.task, logits, said.label_ids)
        prefix = "" if split is rows else f"{name}_"
        known = [key for key in ("loss", *data.task.metrics) if f"eval_{key}" in said.metrics]
        metrics |= {f"{prefix}{key}{ending}": said.metrics[f"eval_{key}"] for key in known}
    return metrics


def _save_model(job: Job, trainer: Any, main: bool) -> None:
    unfinished = job.folder / f".model-{os.getppid() if job.world > 1 else os.getpid()}"
    if job.config.peft.name:
        if main:
            trainer.model.save_pretrained(job.folder / "adapter")
            merged(trainer.accelerator.unwrap_model(trainer.model)).save_pretrained(unfinished)
    else:
        trainer.save_model(str(unfinished))  # every process: FSDP gathers the weights here
    if main:
        job.material.tokenizer.save_pretrained(unfinished)
        (unfinished / "training_args.bin").unlink(missing_ok=True)  # a pickle; config.yaml says it all
        move_folder(unfinished, job.folder / "model")
