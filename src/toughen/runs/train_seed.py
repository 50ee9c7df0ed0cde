"""Train one seed of one variant, score and save its best epoch; with smaller micro-batches if memory runs out.

Processes that train together reduce together. One that ran out cannot tell the others, who wait for its gradients
inside a collective call, so it writes memory.json and ends; torchrun ends the others, and the run goes on from its last
checkpoint with the size that stands there. A resumed run reads it, too, and ends on the same bits.
"""

import gc
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..internal.atomic import move_folder, remove_folder
from ..needs import declared
from ..tasks import Data, collator, compute_metrics
from .config_io import rows_per_device
from .errors import RestartWithSmallerBatch, RunError
from .method_config import methods_of
from .modeling import load_model, merge_adapters
from .prepare import SeedJob
from .progress import ProgressLogger
from .results import SeedResult, write_predictions

if TYPE_CHECKING:
    from .launch import GracefulStop


def train_seed(job: SeedJob, reporter: ProgressLogger, stop: "GracefulStop") -> SeedResult:
    """Train one seed, from its last checkpoint if it has one; smaller micro-batches where memory runs out."""
    import torch

    while True:
        micro, scored = pass_sizes(job)
        # Outside the handler, whose traceback holds the tensors of a failed pass. A Trainer and its callbacks hold each
        # other: without a collection the last seed's, or the failed attempt's, weights and moments stay on the device.
        gc.collect()
        torch.cuda.empty_cache()
        try:
            return _train(job, micro, scored, reporter, stop)
        except torch.OutOfMemoryError:
            note = reduce_micro_batch(job, micro)
        if job.world_size > 1:
            raise RestartWithSmallerBatch(note)
        reporter.log(f"{job.title}: {note}")


def pass_sizes(job: SeedJob) -> tuple[int, int]:
    """Return the rows of a training pass and of an evaluation pass on one device."""
    _, wanted = rows_per_device(job.config.train, job.world_size)
    micro = int(job.run.oom_history().get(job.variant, {}).get("rows", wanted))
    return micro, max(job.config.train.eval_batch_size * micro // wanted, 1)


def reduce_micro_batch(job: SeedJob, micro: int) -> str:
    """Note that `micro` rows a pass are too many; returns the line to report."""
    share = job.config.train.batch_size // job.world_size
    smaller = next((rows for rows in range(micro // 2, 0, -1) if share % rows == 0), 0)
    if not smaller:
        raise RunError(
            f"out of memory with one row of {job.config.data.max_length} tokens at a time; lower data.max_length, add "
            "--peft, or give --trainer.gradient_checkpointing true"
            + (" or --train.shard true." if job.world_size > 1 and not job.config.train.shard else ".")
        )
    note = f"out of memory with {micro} rows a pass: {smaller} a pass, the update as before"
    job.run.note_oom(job.variant, smaller, note)
    return note


def _train(job: SeedJob, micro: int, scored: int, reporter: ProgressLogger, stop: "GracefulStop") -> SeedResult:
    import torch
    from transformers import EarlyStoppingCallback, set_seed
    from transformers.trainer_callback import PrinterCallback

    from .trainer import NanMonitor, RunCallback, RunTrainer

    config, train = job.config, job.config.train
    set_seed(job.seed)
    model = load_model(config, job.data.task, job.prepared.tokenizer)
    nan_monitor = NanMonitor(job.settings, train.learning_rate, job.prepared.precision)
    callback = RunCallback(job, reporter, stop, nan_monitor)
    rows = getattr(job.data, config.data.eval_split)
    trainer = RunTrainer(
        model,
        _arguments(job, model, micro, scored),
        method=job.method,
        nan_monitor=nan_monitor,
        fast=config.fast,
        train_dataset=job.data.train,
        eval_dataset=rows,
        data_collator=collator(
            job.data.task,
            job.prepared.tokenizer,
            edges=(job.prepared.max_length,) if config.data.pad_to_max_length else (),
        ),
        processing_class=job.prepared.tokenizer,
        compute_metrics=compute_metrics(job.data.task),
        callbacks=[callback, *([EarlyStoppingCallback(train.patience)] if train.patience else [])],
    )
    callback.trainer = trainer
    trainer.tell = partial(_log, reporter, job.title)
    if trainer.args.world_size != job.world_size:
        raise RunError(
            f"{job.world_size} processes were started, but Trainer sees {trainer.args.world_size}; use --nproc."
        )
    trainer.remove_callback(PrinterCallback)
    last = _last_checkpoint(job, model, reporter)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        if last is not None and _is_trained(last):
            trainer.load_best(last)
        else:
            if trainer.is_world_process_zero():
                job.run.truncate_metrics(job.variant, job.seed, int(last.name.rpartition("-")[2]) if last else 0)
            trainer.train(resume_from_checkpoint=str(last) if last else None)
            if trainer.fast_steps:
                trainer.tell(trainer.fast_steps)
    finally:
        reporter.end()
    return finish_seed(job, trainer, rows)


def _log(reporter: ProgressLogger, title: str, line: str) -> None:
    reporter.log(f"{title}: {line}")


def _last_checkpoint(job: SeedJob, model: object, reporter: ProgressLogger) -> Path | None:
    """Return the checkpoint to go on from, and log what is wrong with later ones."""
    if not job.run.checkpoints(job.variant, job.seed):
        return None
    from .checkpoints import last_usable

    last, problems = last_usable(job, model)
    if problems:
        start = f"from {last.name}" if last else "from the beginning"
        reporter.log(f"! {job.title}: {'; '.join(problems)}; going on {start}")
    return last


def _arguments(job: SeedJob, model: object, micro: int, scored: int) -> Any:
    import torch
    from transformers import TrainingArguments

    from .trainer import fsdp_arguments

    train = job.config.train
    settings: dict[str, Any] = {
        "learning_rate": train.learning_rate,
        "per_device_eval_batch_size": scored,
        "warmup_steps": train.warmup,
        "weight_decay": train.weight_decay,
        "max_grad_norm": train.max_grad_norm,
        "bf16": job.prepared.precision == "bf16",
        "fp16": job.prepared.precision == "fp16",
        "logging_steps": train.log_steps,
        "logging_nan_inf_filter": False,  # a broken loss is shown, not hidden
        "save_total_limit": None if train.keep_checkpoints else 1,
        "report_to": "none",
        "ddp_find_unused_parameters": False,
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        # Without it processes on CPUs would not find each other: each would train alone, and say nothing.
        "use_cpu": not torch.accelerator.is_available(),
        **(fsdp_arguments(model) if train.shard else {}),
        **_workers(job),
        **job.config.trainer,
        "output_dir": str(job.folder),
        "seed": job.seed,
        "num_train_epochs": train.epochs,
        "max_steps": train.max_steps or -1,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": train.batch_size // job.world_size // micro,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
        "restore_callback_states_from_checkpoint": True,  # the patience that is left
        "metric_for_best_model": job.data.task.primary_metric,
        "greater_is_better": True,
    }
    try:
        return TrainingArguments(**settings)
    except (TypeError, ValueError, ImportError) as error:
        raise RunError(f"trainer options: {' '.join(str(error).split())}") from error


def _workers(job: SeedJob) -> dict[str, Any]:
    """Return the loader's workers: where texts are edited, a GPU would wait for it."""
    import torch

    edits = any(declared(each.site, "target") == "text" for each in methods_of(job.method))
    number = min(4, (os.cpu_count() or 1) // job.world_size) if edits and torch.cuda.is_available() else 0
    return {"dataloader_num_workers": number}


def _is_trained(checkpoint: Path) -> bool:
    """Return whether training was over when this was saved; then only the scoring is left."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop"))


def finish_seed(job: SeedJob, trainer: Any, rows: Any) -> SeedResult:
    """Write scores and predictions of the best epoch, the model as a plain checkpoint, then the seed's result."""
    import torch

    spent = trainer.spent_so_far()
    task, main = job.data.task, trainer.is_world_process_zero()
    metrics = _scored(job, trainer, job.data, rows, "")
    for ending, data in job.prepared.extra_eval_sets.items():
        metrics |= _scored(job, trainer, data, getattr(data, job.config.data.eval_split), f"_{ending}")
    if job.config.head.name or any(states.adversary for states in trainer.attached.states):
        from .diagnostics import write_diagnostics

        write_diagnostics(job, trainer, rows)
    _save_model(job, trainer, main)
    state = trainer.state
    scored = [row for row in state.log_history if f"eval_{task.primary_metric}" in row]
    best = next((row["epoch"] for row in scored if row["step"] == state.best_global_step), None)
    peak = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None
    scores = {name: float(value) for name, value in metrics.items()}
    result = SeedResult(
        seed=job.seed,
        metrics=scores,
        best_epoch=float(best if best is not None else state.epoch or 0.0),
        train_seconds=spent.seconds,
        passes=trainer.passes,
        seconds_per_step=spent.in_steps / max(spent.steps, 1),
        peak_memory_mb=peak,
        folder=job.folder.relative_to(job.run.path).as_posix(),
    )
    if not all(math.isfinite(value) for value in scores.values()):
        raise RunError(f"seed {job.seed}: a score is not finite: {scores}; lower train.learning_rate.")
    if main:
        job.run.write_seed_result(job.variant, result)
        if not job.config.train.keep_checkpoints:
            for folder in job.folder.glob("checkpoint-*"):
                remove_folder(folder)
    return result


def _scored(job: SeedJob, trainer: Any, data: Data, rows: Any, ending: str) -> dict[str, float]:
    """Write the predictions of every split; return the scores of those with labels, such as `test_accuracy_mm`."""
    metrics: dict[str, float] = {}
    for name, split in data.splits.items():
        if name == "train" and split is not rows:
            continue
        output = trainer.predict(split, metric_key_prefix="eval")
        logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
        if trainer.is_world_process_zero():
            table = job.folder / "predictions" / f"{name}{ending}.tsv"
            write_predictions(table, data.task, logits, output.label_ids)
        prefix = "" if split is rows else f"{name}_"
        known = [key for key in ("loss", *data.task.metrics) if f"eval_{key}" in output.metrics]
        metrics |= {f"{prefix}{key}{ending}": output.metrics[f"eval_{key}"] for key in known}
    return metrics


def _save_model(job: SeedJob, trainer: Any, main: bool) -> None:
    unfinished = job.folder / f".model-{os.getppid() if job.world_size > 1 else os.getpid()}"
    if job.config.peft.name:
        if main:
            trainer.model.save_pretrained(job.folder / "adapter")
            merge_adapters(trainer.accelerator.unwrap_model(trainer.model)).save_pretrained(unfinished)
    else:
        trainer.save_model(str(unfinished))  # every process: FSDP gathers the weights here
    if main:
        job.prepared.tokenizer.save_pretrained(unfinished)
        (unfinished / "training_args.bin").unlink(missing_ok=True)  # a pickle; config.yaml says it all
        move_folder(unfinished, job.folder / "model")
