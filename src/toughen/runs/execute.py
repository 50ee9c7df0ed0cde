"""A run from its folder: every seed that is not done yet, then the results. Starting and resuming are the same."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..tasks import Data, prepare
from .banner import introduction
from .config import Config
from .disk import room_for
from .errors import Interrupted, RunError
from .files import write_json
from .folder import read_config, seed_folder
from .job import Job, Material
from .loading import also_scored, load
from .method_config import make_method
from .modeling import length_of, load_tokenizer
from .precision import resolve
from .progress import Reporter
from .quiet import quiet
from .results import finish, is_complete, write_page
from .stopping import Stop
from .train_seed import train_seed

# Half a run with other values of these would be no run of either.
LEARNT_BY = ("learning_rate", "epochs", "max_steps", "batch_size", "warmup", "weight_decay", "max_grad_norm")


def execute(folder: Path, method: Any = None) -> None:
    """Train what is left of a run; every process of a distributed run calls this. `method` goes for the config's."""
    config = read_config(folder)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if config.train.batch_size % world:
        raise RunError(f"train.batch_size={config.train.batch_size} cannot be shared by {world} processes evenly.")
    if config.train.shard and world == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    reporter = Reporter(folder / "train.log" if rank == 0 else None, speak=rank == 0)
    first, log = _first(world), folder / ("train.log" if rank == 0 else f"train-{rank}.log")
    with Stop(folder, shared=world > 1) as stop, quiet(log, reporter.line):
        with first():
            material = _material(folder, config, method, world, reporter)
        for arm in ("method", "baseline") if config.baseline else ("method",):
            for seed in config.seed:
                place = seed_folder(folder, arm, seed)
                if (place / "result.json").is_file():
                    continue
                if stop.wanted(0):
                    raise Interrupted(place, 0, stop.signal)
                job = Job(config, folder, place, arm, seed, world, material)
                with room_for(folder):
                    result = train_seed(job, reporter, stop)
                    if rank == 0:
                        score, epoch = result["metrics"][job.data.task.primary_metric], result["best_epoch"]
                        reporter.line(f"{job.title}: {job.data.task.primary_metric} {score:.4f} (epoch {epoch:g})")
                        finish(folder, config, material)
        if rank == 0:
            if not is_complete(folder, config):  # ended between a seed's result and the run's
                finish(folder, config, material)
            write_page(folder, reporter)


def _material(folder: Path, config: Config, method: Any, world: int, reporter: Reporter) -> Material:
    """Data, tokenizer and method, with what is worth noting about them."""
    precision, note = resolve(config.train.precision)
    made = method if method is not None else make_method(config.method)
    data = load(config)
    _same_as_before(folder, config, data, world)
    tokenizer = load_tokenizer(config.model)
    length, longest, shorter = length_of(config, tokenizer)
    others, missing = also_scored(config, data.task)
    notes = [*filter(None, (note, shorter)), *missing]
    if reporter.speak:
        for line in introduction(config, data, tokenizer, (length, longest), precision, world, notes):
            reporter.line(line)
    ready = prepare(data, tokenizer, length, cache_dir=config.data.cache_dir)
    also = {key: prepare(each, tokenizer, length, cache_dir=config.data.cache_dir) for key, each in others.items()}
    return Material(ready, also, tokenizer, made, precision, tuple(notes))


def _first(world: int) -> Any:
    """A context in which the first process goes before the others, so that one prepares the data and all find it."""
    if world == 1:
        return nullcontext
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available()).main_process_first


def _same_as_before(folder: Path, config: Config, data: Data, world: int) -> None:
    """Note what a run began with, and refuse to go on with anything else."""
    now: dict[str, Any] = {
        "task": data.task.name,
        "labels": list(data.task.labels),
        "head": data.task.head,
        "kind": data.task.kind,
        "columns": list(data.task.columns),
        "metrics": list(data.task.metrics),
        "rows": {name: len(split) for name, split in data.splits.items()},
        "processes": world,
        "method": config.method,
        **{f"train.{key}": getattr(config.train, key) for key in LEARNT_BY},
    }
    file = folder / "began.json"
    if not file.is_file():
        write_json(file, now)  # the first process comes here before the others
        return
    before: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for key, value in now.items():
        if before.get(key, value) != value:
            raise RunError(f"{folder} began with {key} {before.get(key)}, and now it is {value}; start a new run.")
