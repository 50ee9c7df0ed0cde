"""What happens beside the training steps: metrics.jsonl, progress, checkpoints in between, stopping."""

import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .errors import Interrupted
from .health import Health
from .job import Job
from .progress import Reporter
from .sharding import check_sharded
from .stopping import Stop


class Watch(TrainerCallback):
    """One seed of one arm, as it trains."""

    def __init__(self, job: Job, reporter: Reporter, stop: Stop, health: Health) -> None:
        self.job, self.reporter, self.stop, self.health = job, reporter, stop, health
        self.save = job.config.train.save_steps
        self.stopping = False
        self.trainer: Any = None  # set once it is made
        self.seconds = 0.0  # of training alone: scoring and saving after an epoch is no cost of the method
        self._since = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.fsdp:
            check_sharded(kwargs["model"])
        warmup = self.job.config.train.warmup
        if warmup >= max(state.max_steps, 1):
            said = f"train.warmup={warmup:g}, but there are {state.max_steps} updates"
            self.reporter.line(f"! {said}: the learning rate never gets to its height")
        self.reporter.begin(self.job.title, self.job.names, self.job.data.task.selects, state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.reporter.step(state.global_step, state.epoch or 0.0)
        self.stopping = self.stopping or self.stop.wanted(state.global_step)
        # The last step of an epoch is followed by its evaluation: what is saved before that would resume without it.
        whole = abs((state.epoch or 0) - round(state.epoch or 0)) < 1e-9 or state.global_step >= state.max_steps
        if not whole and (self.stopping or (self.save and state.global_step % self.save == 0)):
            control.should_save = True
        if control.should_save:
            self.health.check(self.job.seed)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._since = time.perf_counter()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.seconds += time.perf_counter() - self._since
        self.health.check(self.job.seed)  # a broken model is neither scored nor saved

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.stopping:
            # Not should_training_stop: Trainer would score the unfinished epoch and might take it for the best.
            raise Interrupted(self.job.folder, state.global_step, self.stop.signal)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        logs = logs or {}
        kind = "eval" if any(key.startswith("eval_") for key in logs) else "train" if "loss" in logs else None
        if kind == "train":
            self.health.check(self.job.seed)
        if kind is None or not state.is_world_process_zero:
            return
        row = {
            "seed": self.job.seed,
            "arm": self.job.arm,
            "step": state.global_step,
            "epoch": state.epoch,
            "kind": kind,
        }
        row |= {key: value for key, value in logs.items() if key != "epoch"}
        if kind == "train":
            row["cost"] = round(self.trainer.cost, 3)
        self.job.run.append_metrics(row)
        self.reporter.row(row, self.trainer.terms)
