"""A run from its folder: every seed that is not done yet, then the results. Starting and resuming are the same."""

import os
from contextlib import nullcontext
from typing import Any

from ..tasks import Data, prepare
from .banner import introduction
from .config import Config
from .errors import Interrupted, RunError
from .finish import write_page, write_results
from .folder import RunFolder
from .job import Job, Material
from .loading import also_scored, load
from .method_config import make_method
from .modeling import length_of, load_tokenizer
from .precision import resolve
from .progress import Reporter
from .quiet import quiet
from .results import RunManifest
from .stopping import Stop
from .train_seed import train_seed

# Half a run with other values of these would be no run of either.
LEARNT_BY = ("learning_rate", "epochs", "max_steps", "batch_size", "warmup", "weight_decay", "max_grad_norm")


def execute(path: "str | os.PathLike[str]", method: Any = None) -> None:
    """Train what is left of a run; every process of a distributed run calls this. `method` goes for the config's."""
    folder = RunFolder.of(path)
    config = folder.config()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if config.train.batch_size % world:
        raise RunError(f"train.batch_size={config.train.batch_size} cannot be shared by {world} processes evenly.")
    if config.train.shard and world == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    reporter = Reporter(folder.path / "train.log" if rank == 0 else None, speak=rank == 0)
    first, log = _first(world), folder.path / ("train.log" if rank == 0 else f"train-{rank}.log")
    with Stop(folder, shared=world > 1) as stop, quiet(log, reporter.line):
        with first():
            material = _material(folder, config, method, world, reporter)
        for arm in ("method", "baseline") if config.baseline else ("method",):
            for seed in config.seed:
                place = folder.seed_folder(arm, seed)
                if folder.seed_result(arm, seed) is not None:
                    continue
                if stop.wanted(0):
                    raise Interrupted(place, 0, stop.signal)
                job = Job(config, folder, place, arm, seed, world, material)
                with folder.disk_full_as_run_error():
                    result = train_seed(job, reporter, stop)
                    if rank == 0:
                        score, epoch = result.metrics[job.data.task.selects], result.best_epoch
                        reporter.line(f"{job.title}: {job.data.task.selects} {score:.4f} (epoch {epoch:g})")
                        write_results(folder, config, material)
        if rank == 0:
            if not folder.is_complete(config):  # ended between a seed's result and the run's
                write_results(folder, config, material)
            write_page(folder, reporter)


def _material(folder: RunFolder, config: Config, method: Any, world: int, reporter: Reporter) -> Material:
    """Data, tokenizer and method, with what is worth noting about them."""
    precision, note = resolve(config.train.precision)
    made = method if method is not None else make_method(config.method)
    data = load(config)
    folder.check_manifest(_manifest(config, data, world))
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


def _manifest(config: Config, data: Data, world: int) -> RunManifest:
    return RunManifest(
        task=data.task.name,
        labels=data.task.labels,
        head=data.task.head,
        kind=data.task.kind,
        columns=data.task.columns,
        metrics=data.task.metrics,
        rows={name: len(split) for name, split in data.splits.items()},
        processes=world,
        method=config.method,
        train={key: getattr(config.train, key) for key in LEARNT_BY},
    )
