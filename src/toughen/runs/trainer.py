"""The Trainer of a run: the robust one, with its callback, its watch for NaN, and FSDP by one option."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from transformers import Trainer, TrainerCallback
from transformers import TrainerControl as Control
from transformers import TrainerState as State
from transformers import TrainingArguments as Args

from ..combine.single_pass import Add
from ..errors import SiteError
from ..internal.atomic import write_json
from ..trainers import checkpoint
from ..trainers.hf import robust
from .errors import Diverged, Interrupted, RunError
from .method_config import cost_of, methods_of, options_of, search_gradients
from .prepare import SeedJob
from .progress import ProgressLogger

if TYPE_CHECKING:
    from .launch import GracefulStop

Logs = dict[str, Any] | None
NEVER = 2**31 - 1
COST_FILE = "toughen_cost.json"  # of a checkpoint
PARTS = {"loss_clean": "the clean loss", "term": "the perturbed term", "loss_perturbed": "the perturbed loss"}


class NanMonitor:
    """Keep one number for each part of the loss: the first step at which it was not finite."""

    def __init__(self, method: Mapping[str, Any], learning_rate: float, precision: str) -> None:
        self.method, self.learning_rate, self.precision = method, learning_rate, precision
        self.first: dict[str, Tensor] = {}

    def update(self, step: int, parts: Mapping[str, Tensor]) -> None:
        """Note a step's values; nothing is read from the device."""
        for name, value in parts.items():
            now = torch.where(torch.isfinite(value).all(), NEVER, step)
            self.first[name] = now if name not in self.first else torch.minimum(self.first[name], now)

    def check(self, seed: int) -> None:
        """Stop the run if a part is broken; reads a few numbers from the device."""
        first = {name: int(step) for name, step in self.first.items()}
        step = min(first.values(), default=NEVER)
        if step == NEVER:
            return
        parts = [name for name, since in first.items() if since == step]
        clean = any(name.endswith("loss_clean") for name in parts)
        part = next((PARTS[key] for key in PARTS for name in parts if name.endswith(key)), "the loss")
        raise Diverged(f"seed {seed}, step {step}: {part} is not finite. {self._suggest_fix(clean, step)}")

    def _suggest_fix(self, clean: bool, step: int) -> str:
        if clean and step == 1:  # no update was made
            return f"No weight has moved yet: try train.precision=fp32 (it is {self.precision}), or another model."
        tries: list[str] = []
        if not clean:
            tries += [f"method.{key}={self.method[key]}" for key in ("step_size", "max_norm") if self.method.get(key)]
            tries += self._main_option() if not tries else []
        tries.append(f"train.learning_rate={self.learning_rate:g}")
        half = f", or train.precision=fp32 (it is {self.precision})" if self.precision != "fp32" else ""
        return f"Lower {' or '.join(tries)}{half}."

    def _main_option(self) -> list[str]:
        """Return the option that the method's term depends on most, of those it has."""
        if "name" not in self.method or "repr" in self.method:
            return []
        known = list(options_of(self.method["name"]))
        keys = [key for name in ("step_size", "weight") for key in known if key.rpartition(".")[2] == name]
        return [f"method.{key}" for key in keys[:1]]


def fsdp_arguments(model: Any) -> dict[str, Any]:
    """Return what TrainingArguments need so that every layer is gathered by itself, right before it runs.

    Not transformers' own list of modules: it names BERT's embedding block, and accelerate shards the embedding in it
    once more and fails.
    """
    from ..sites.locate import layers

    try:
        settings: dict[str, Any] = {"transformer_layer_cls_to_wrap": sorted({type(e).__name__ for e in layers(model)})}
    except SiteError:  # no stack, or one module run many times (ALBERT): gathered as a whole
        settings = {"auto_wrap_policy": "NO_WRAP"}
    return {"fsdp": True, "fsdp_config": {"version": 2, **settings}}


def take_processors_for_gpus() -> None:
    """Let Accelerate shard on processors, too: without a GPU it leaves FSDP out; call before it is set up."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    shared: dict[str, Any] = cast(Any, PartialState)._shared_state
    if shared.get("distributed_type") == DistributedType.MULTI_CPU:
        shared["distributed_type"] = DistributedType.MULTI_GPU


def check_sharded(model: Any) -> None:
    """Refuse to train if every process holds the whole model after all."""
    if not any(hasattr(parameter, "to_local") for parameter in model.parameters()):
        raise RunError("the weights were not sharded among the processes; leave train.shard and trainer.fsdp out.")


@dataclass
class Spent:
    """What a seed has cost so far, in all processes that trained it one after the other."""

    seconds: float = 0.0
    """Of training, scoring and saving."""
    in_steps: float = 0.0
    """Seconds of training alone: scoring and saving after an epoch is no cost of the method."""
    steps: int = 0
    micro_batches: int = 0
    forwards: int = 0
    backwards: int = 0


class RunCallback(TrainerCallback):
    """One seed of one variant, as it trains."""

    def __init__(self, job: SeedJob, reporter: ProgressLogger, stop: "GracefulStop", nan_monitor: NanMonitor) -> None:
        self.job, self.reporter, self.stop, self.nan_monitor = job, reporter, stop, nan_monitor
        self.save = job.config.train.save_steps
        self.stopping = False
        self.trainer: Any = None  # set once it is made
        self._since = 0.0

    def on_train_begin(self, args: Args, state: State, control: Control, **kwargs: Any) -> None:
        if args.fsdp:
            check_sharded(kwargs["model"])
        warmup = self.job.config.train.warmup
        if warmup >= max(state.max_steps, 1):
            problem = f"train.warmup={warmup:g}, but there are {state.max_steps} updates"
            self.reporter.log(f"! {problem}: the learning rate never gets to its height")
        self.reporter.begin(self.job.title, self.job.names, self.job.data.task.primary_metric, state)

    def _count_seconds(self) -> None:
        now = time.perf_counter()
        self.trainer.spent.in_steps += now - self._since
        self._since = now

    def on_step_end(self, args: Args, state: State, control: Control, **kwargs: Any) -> None:
        self._count_seconds()
        self.trainer.spent.steps += 1
        self.reporter.step(state.global_step, state.epoch or 0.0)
        self.stopping = self.stopping or self.stop.requested(state.global_step)
        # The last step of an epoch is followed by its evaluation: what is saved before that would resume without it.
        epoch_ends = abs((state.epoch or 0) - round(state.epoch or 0)) < 1e-9 or state.global_step >= state.max_steps
        if not epoch_ends and (self.stopping or (self.save and state.global_step % self.save == 0)):
            control.should_save = True
        if control.should_save:
            self.nan_monitor.check(self.job.seed)

    def on_epoch_begin(self, args: Args, state: State, control: Control, **kwargs: Any) -> None:
        self._since = time.perf_counter()

    def on_epoch_end(self, args: Args, state: State, control: Control, **kwargs: Any) -> None:
        self._count_seconds()
        self.nan_monitor.check(self.job.seed)  # a broken model is neither scored nor saved
        control.should_log = True  # the line of the epoch has the mean loss of all its updates

    def on_save(self, args: Args, state: State, control: Control, **kwargs: Any) -> None:
        self._since = time.perf_counter()
        if self.stopping:
            # Not should_training_stop: Trainer would score the unfinished epoch and might take it for the best.
            raise Interrupted(self.job.folder, state.global_step, self.stop.signal)

    def on_log(self, args: Args, state: State, control: Control, logs: Logs = None, **kwargs: Any) -> None:
        logs = logs or {}
        kind = "eval" if any(key.startswith("eval_") for key in logs) else "train" if "loss" in logs else None
        if kind == "train":
            self.nan_monitor.check(self.job.seed)
        if kind is None or not state.is_world_process_zero:
            return
        about = {"seed": self.job.seed, "arm": self.job.variant, "step": state.global_step, "epoch": state.epoch}
        row = {**about, "kind": kind, **{key: value for key, value in logs.items() if key != "epoch"}}
        if kind == "train":
            row["cost"] = round(self.trainer.cost, 3)
        self.job.run.append_metrics(row)
        self.reporter.log_row(row, self.trainer.terms)


_Robust: Any = robust(Trainer)


class RunTrainer(_Robust):
    """Adds what a run reports: passes of a micro-batch, and since when a part of the loss is broken."""

    def __init__(self, *args: Any, method: Any, nan_monitor: NanMonitor, **kwargs: Any) -> None:
        try:
            super().__init__(*args, method=method, **kwargs)
        except RuntimeError as error:
            if "to be installed" in str(error):  # a tracker that trainer.report_to names
                raise RunError(str(error)) from error
            raise
        self.nan_monitor, self.cost, self.searched = nan_monitor, cost_of(method), search_gradients(method)
        self.spent, self._began = Spent(), time.perf_counter()
        self._sums: dict[str, Tensor] = {}
        self._summed = 0

    def create_accelerator_and_postprocess(self) -> None:
        if self.args.fsdp:
            take_processors_for_gpus()
        super().create_accelerator_and_postprocess()

    def _eager_reason(self) -> str | None:
        padded = getattr(self.data_collator, "edges", ())
        return "fast steps remove padding, and data.pad_to_max_length keeps it" if padded else super()._eager_reason()

    def _get_dataloader(self, *args: Any, is_training: bool = False, **kwargs: Any) -> Any:
        """Score all rows in their own order: without the groups by length and dropped batches of the training."""
        if is_training:
            return super()._get_dataloader(*args, is_training=True, **kwargs)
        dropped, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            return super()._get_dataloader(*args, **{**kwargs, "sampler_fn": None})
        finally:
            self.args.dataloader_drop_last = dropped

    def training_step(self, model: object, inputs: object, num_items_in_batch: object = None) -> Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        batches = self.attached.last_batches
        self.spent.forwards += batches[0].passes.counts.forwards
        self.spent.backwards += batches[0].passes.counts.backwards + self.searched
        self.spent.micro_batches += 1
        self._summed += 1
        parts = {"loss": loss.detach()}
        with torch.no_grad():
            for number, batch in enumerate(batches):
                parts |= {f"{number}/{key}": value for key, value in batch.metrics.items() if key != "weight_move"}
                for key in PARTS.keys() & batch.metrics.keys():
                    name = f"{number}/{key}" if len(batches) > 1 else key
                    self._sums[name] = self._sums.get(name, 0.0) + batch.metrics[key]
            self.nan_monitor.update(self.state.global_step + 1, parts)
        return loss

    def figures(self) -> dict[str, Tensor]:
        """Return losses as means since they were last logged, as the Trainer's own is; all over all processes."""
        metrics = {**super().figures(), **{key: value / self._summed for key, value in self._sums.items()}}
        # The search's gradients are backward passes, too: the log counts as the results do.
        metrics |= {key: value + self.searched for key, value in metrics.items() if key.endswith("backwards")}
        self._sums, self._summed = {}, 0
        if self.args.world_size == 1 or not metrics:
            return metrics
        values = torch.stack([value.detach().float().to(self.args.device) for value in metrics.values()])
        return dict(zip(metrics, self.accelerator.reduce(values, "mean"), strict=True))

    @property
    def terms(self) -> dict[str, float]:
        """The weights of the terms added to the clean loss, by their names in the log; none if it is no sum."""
        methods = methods_of(self._method)
        weights = [m.combine.weight for m in methods if isinstance(m.combine, Add)]
        plain = [float(weight) for weight in weights if isinstance(weight, (int, float))]
        if len(plain) < len(methods):
            return {}
        return {f"robust/{number}/term" if len(methods) > 1 else "robust/term": w for number, w in enumerate(plain)}

    @property
    def passes(self) -> dict[str, float]:
        """Forward and backward passes of one micro-batch, on average; gradients of the search are backward passes."""
        count = max(self.spent.micro_batches, 1)
        return {"forward": self.spent.forwards / count, "backward": self.spent.backwards / count}

    def spent_so_far(self) -> Spent:
        """Return the cost with the seconds of this process until now."""
        return replace(self.spent, seconds=self.spent.seconds + time.perf_counter() - self._began)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if self.is_world_process_zero():
            write_json(Path(output_dir) / COST_FILE, asdict(self.spent_so_far()))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._load_cost(Path(checkpoint))

    def _load_cost(self, folder: Path) -> None:
        file = folder / COST_FILE  # checkpoints of earlier versions have none
        self.spent = Spent(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else Spent()

    def load_best(self, folder: Any) -> None:
        """Load the best epoch's weights without training: for a run that ended between training and scoring."""
        self.state = State.load_from_json(str(folder / "trainer_state.json"))
        if self.state.best_global_step:
            # Beside this one, and not where the state says: the folder may have moved.
            self.state.best_model_checkpoint = str(folder.with_name(f"checkpoint-{self.state.best_global_step}"))
            self._load_best_model()
        else:
            self._load_from_checkpoint(str(folder))
        self._load_cost(folder)
        checkpoint.load(self.attached, folder, self.args.process_index)  # diagnostics look at a trained adversary
