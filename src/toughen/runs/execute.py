"""A run from its folder: every seed that is not done yet, then the results. Starting and resuming are the same."""

import os
from contextlib import nullcontext
from typing import Any

from .errors import Interrupted, RunError
from .finish import write_page, write_results
from .folder import RunFolder
from .prepare import SeedJob, prepare_run
from .progress import ProgressLogger, silence_libraries
from .signals import GracefulStop
from .train_seed import train_seed


def execute(path: "str | os.PathLike[str]", method: Any = None) -> None:
    """Train what is left of a run; every process of a distributed run calls this. `method` goes for the config's."""
    folder = RunFolder.of(path)
    config = folder.config()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if config.train.batch_size % world_size:
        raise RunError(f"train.batch_size={config.train.batch_size} cannot be shared by {world_size} processes evenly.")
    if config.train.shard and world_size == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    reporter = ProgressLogger(folder.path / "train.log" if rank == 0 else None, speak=rank == 0)
    first, log = _first(world_size), folder.path / ("train.log" if rank == 0 else f"train-{rank}.log")
    with GracefulStop(folder, shared=world_size > 1) as stop, silence_libraries(log, reporter.line):
        with first():
            prepared = prepare_run(folder, config, method, world_size, reporter)
        for variant in ("method", "baseline") if config.baseline else ("method",):
            for seed in config.seed:
                place = folder.seed_folder(variant, seed)
                if folder.seed_result(variant, seed) is not None:
                    continue
                if stop.requested(0):
                    raise Interrupted(place, 0, stop.signal)
                job = SeedJob(config, folder, place, variant, seed, world_size, prepared)
                with folder.disk_full_as_run_error():
                    result = train_seed(job, reporter, stop)
                    if rank == 0:
                        score, epoch = result.metrics[job.data.task.primary_metric], result.best_epoch
                        reporter.line(f"{job.title}: {job.data.task.primary_metric} {score:.4f} (epoch {epoch:g})")
                        write_results(folder, config, prepared)
        if rank == 0:
            if not folder.is_complete(config):  # ended between a seed's result and the run's
                write_results(folder, config, prepared)
            write_page(folder, reporter)


def _first(world_size: int) -> Any:
    """A context in which the first process goes before the others, so that one prepares the data and all find it."""
    if world_size == 1:
        return nullcontext
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available()).main_process_first
