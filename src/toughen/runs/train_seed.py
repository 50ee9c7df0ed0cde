"""One seed of one arm: train, take the best epoch, score, save; with smaller micro-batches where memory runs out.

Processes that train together reduce together. One that ran out cannot tell the others, who wait for its gradients
inside a collective call, so it writes memory.json and ends; torchrun ends the others, and the run goes on from its last
checkpoint with the size that stands there. A resumed run reads it, too, and ends on the same bits.
"""

import gc
import json
import time
from pathlib import Path
from typing import Any

from ..tasks import collator, compute_metrics
from . import sharding
from .callbacks import Watch
from .errors import MemoryLow, RunError
from .finishing import finish_seed
from .health import Health
from .job import Job
from .modeling import load_model
from .progress import Reporter
from .results import SeedResult
from .stopping import Stop

FAST_LENGTHS = 32  # lengths are padded to multiples of it in fast runs


def train_seed(job: Job, reporter: Reporter, stop: Stop) -> SeedResult:
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
        if job.world > 1:
            raise MemoryLow(note)
        reporter.line(f"{job.title}: {note}")


def pass_sizes(job: Job) -> tuple[int, int]:
    """Return the rows of a training pass and of an evaluation pass on one device."""
    train, share = job.config.train, job.config.train.batch_size // job.world
    wanted = min(train.micro_batch or share, share)
    if share % wanted:
        raise RunError(f"train.micro_batch={wanted} does not divide the {share} rows of a device's share of an update.")
    micro = int(job.run.oom_history().get(job.arm, {}).get("rows", wanted))
    return micro, max(train.eval_batch_size * micro // wanted, 1)


def reduce_micro_batch(job: Job, micro: int) -> str:
    """Note that `micro` rows a pass are too many; returns the line to report."""
    share = job.config.train.batch_size // job.world
    smaller = next((rows for rows in range(micro // 2, 0, -1) if share % rows == 0), 0)
    if not smaller:
        raise RunError(
            f"out of memory with one row of {job.config.data.max_length} tokens at a time; lower data.max_length, add "
            "--peft, or give --trainer.gradient_checkpointing true"
            + (" or --train.shard true." if job.world > 1 and not job.config.train.shard else ".")
        )
    note = f"out of memory with {micro} rows a pass: {smaller} a pass, the update as before"
    job.run.note_oom(job.arm, smaller, note)
    return note


def _train(job: Job, micro: int, scored: int, reporter: Reporter, stop: Stop) -> SeedResult:
    import torch
    from transformers import EarlyStoppingCallback, set_seed
    from transformers.trainer_callback import PrinterCallback

    from .trainer import RunTrainer

    config, train = job.config, job.config.train
    set_seed(job.seed)
    model = load_model(config, job.data.task, job.material.tokenizer)
    health = Health(job.settings, train.learning_rate, job.material.precision)
    watch = Watch(job, reporter, stop, health)
    rows = getattr(job.data, config.data.eval_split)
    trainer = RunTrainer(
        model,
        _arguments(job, model, micro, scored),
        method=job.method,
        health=health,
        fast=config.fast,
        train_dataset=job.data.train,
        eval_dataset=rows,
        # A captured step is made for one shape: few lengths make few of them.
        data_collator=collator(
            job.data.task, job.material.tokenizer, pad_to_multiple_of=FAST_LENGTHS if config.fast else None
        ),
        processing_class=job.material.tokenizer,
        compute_metrics=compute_metrics(job.data.task),
        callbacks=[watch, *([EarlyStoppingCallback(train.patience)] if train.patience else [])],
    )
    watch.trainer = trainer
    if trainer.args.world_size != job.world:
        raise RunError(f"{job.world} processes were started, but Trainer sees {trainer.args.world_size}.")
    trainer.remove_callback(PrinterCallback)
    found = job.run.checkpoints(job.arm, job.seed)
    last = found[-1] if found else None
    began = time.perf_counter()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        if last is not None and _is_trained(last):
            trainer.load_best(last)
        else:
            if trainer.is_world_process_zero():
                job.run.truncate_metrics(job.arm, job.seed, int(last.name.rpartition("-")[2]) if last else 0)
            trainer.train(resume_from_checkpoint=str(last) if last else None)
            if config.fast:
                reporter.line(f"{job.title}: {trainer.fast_steps}")
    finally:
        reporter.end()
    return finish_seed(job, trainer, rows, time.perf_counter() - began, watch.seconds)


def _arguments(job: Job, model: Any, micro: int, scored: int) -> Any:
    import torch
    from transformers import TrainingArguments

    train = job.config.train
    settings: dict[str, Any] = {
        "learning_rate": train.learning_rate,
        "per_device_eval_batch_size": scored,
        "warmup_steps": train.warmup,
        "weight_decay": train.weight_decay,
        "max_grad_norm": train.max_grad_norm,
        "bf16": job.material.precision == "bf16",
        "fp16": job.material.precision == "fp16",
        "logging_steps": train.log_steps,
        "logging_nan_inf_filter": False,  # a broken loss is told, not hidden
        "save_total_limit": None if train.keep_checkpoints else 1,
        "report_to": "none",
        "ddp_find_unused_parameters": False,
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        # Without it processes on CPUs would not find each other: each would train alone, and say nothing.
        "use_cpu": not torch.accelerator.is_available(),
        **(sharding.arguments(model) if train.shard else {}),
        **job.config.trainer,
        "output_dir": str(job.folder),
        "seed": job.seed,
        "num_train_epochs": train.epochs,
        "max_steps": train.max_steps or -1,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": train.batch_size // job.world // micro,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
        "restore_callback_states_from_checkpoint": True,  # the patience that is left
        "metric_for_best_model": job.data.task.selects,
        "greater_is_better": True,
    }
    try:
        return TrainingArguments(**settings)
    except (TypeError, ValueError, ImportError) as error:
        raise RunError(f"trainer options: {' '.join(str(error).split())}") from error


def _is_trained(checkpoint: Path) -> bool:
    """Whether training was over when this was saved; then only the scoring is left."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop"))
