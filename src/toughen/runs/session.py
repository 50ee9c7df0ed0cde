"""A run from its folder: every seed that is not done yet, then the results. Starting and resuming are the same."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..tasks import Data, prepare
from ..tasks import load as load_data
from . import memory
from .config import Config
from .errors import Interrupted, RunError
from .files import write_json
from .folder import read_config, seed_folder
from .job import Job
from .modeling import load_tokenizer
from .precision import resolve
from .progress import Reporter
from .quiet import quiet
from .results import finish
from .single import train_seed
from .stopping import Stop


def execute(folder: Path) -> None:
    """Train what is left of a run; every process of a distributed run calls this."""
    config = read_config(folder)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    first = _first(world)
    reporter = Reporter(folder / "train.log" if rank == 0 else None, speak=rank == 0)
    precision, note = resolve(config.train.precision)
    notes = [note] if note else []
    if config.train.batch_size % world:
        raise RunError(f"train.batch_size={config.train.batch_size} cannot be shared by {world} processes evenly.")
    if config.train.shard and world == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    with Stop(folder, shared=world > 1) as stop, quiet(folder / ("train.log" if rank == 0 else f"train-{rank}.log")):
        with first():
            data = load(config)
            _same_as_before(folder, data, world, rank)
            tokenizer = load_tokenizer(config.model)
            length = min(config.data.max_length, int(tokenizer.model_max_length))
            if rank == 0:
                _introduce(reporter, config, data, tokenizer, length, precision, world)
            ready = prepare(data, tokenizer, length, cache_dir=config.data.cache_dir)
        arms = ["method", *(["baseline"] if config.baseline else [])]
        for arm in arms:
            for seed in config.seed:
                place = seed_folder(folder, arm, seed)
                if (place / "result.json").is_file():
                    continue
                if stop.wanted(0):
                    raise Interrupted(place, 0, stop.signal)
                job = Job(config, folder, place, arm, seed, ready, tokenizer, precision, world)
                result = train_seed(job, reporter, stop)
                if rank == 0:
                    score = result["metrics"][ready.task.selects]
                    what = "plain " if arm == "baseline" else ""
                    reporter.line(
                        f"{what}seed {seed}: {ready.task.selects} {score:.4f} (epoch {result['best_epoch']:g})"
                    )
                    finish(folder, config, ready, [*notes, *memory.notes(folder)])


def _first(world: int) -> Any:
    """A context in which the first process goes before the others, so that one prepares the data and all find it."""
    if world == 1:
        return nullcontext
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available()).main_process_first


def load(config: Config) -> Data:
    """The data of a config, checked for what training needs."""
    given = config.data
    columns = [part.strip() for part in given.text_column.split(",")] if given.text_column else None
    data = load_data(
        config.task,
        dir=given.dir,
        train_file=given.train_file,
        validation_file=given.validation_file,
        test_file=given.test_file,
        text_column=columns,
        label_column=given.label_column,
        labels=given.labels,
        head=given.head,
        delimiter=given.delimiter,
        label_separator=given.label_separator,
        on_bad=given.on_bad,
        validation_share=given.validation_share,
        limit=given.limit,
        few_shot=given.few_shot,
        label_noise=given.label_noise,
        imbalance=given.imbalance,
        seed=given.seed,
        cache_dir=given.cache_dir,
    )
    if data.train is None:
        tested = f"; it tests models of {data.task.tests}: use toughen evaluate" if data.task.tests else ""
        raise RunError(f"{data.task.title} has no training rows{tested}.")
    if getattr(data, given.eval_split) is None:
        raise RunError(f"data.eval_split={given.eval_split}: there is none; there are {', '.join(data.splits)}.")
    return data


def _same_as_before(folder: Path, data: Data, world: int, rank: int) -> None:
    """Note what a run began with, and refuse to go on with anything else."""
    now = {
        "task": data.task.name,
        "labels": list(data.task.labels),
        "head": data.task.head,
        "kind": data.task.kind,
        "columns": list(data.task.columns),
        "metrics": list(data.task.metrics),
        "rows": {name: len(split) for name, split in data.splits.items()},
        "processes": world,
    }
    file = folder / "began.json"
    if not file.is_file():
        if rank == 0:
            write_json(file, now)
        return
    before: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for key, value in now.items():
        if before.get(key) != value:
            raise RunError(f"{folder} began with {key} {before.get(key)}, and now it is {value}; start a new run.")


def _introduce(
    reporter: Reporter, config: Config, data: Data, tokenizer: Any, length: int, precision: str, world: int
) -> None:
    from .. import __version__

    rows = "/".join(str(len(split)) for split in data.splits.values())
    seeds = f"{len(config.seed)} seed{'s' * (len(config.seed) > 1)}"
    where = f" · {world} processes" if world > 1 else ""
    what = f"{config.method_name} · {data.task.title} {rows} rows · {config.model}"
    reporter.line(f"toughen {__version__} · {what} · {precision} · {seeds}{where}")
    for warning in data.report(tokenizer, length).warnings:
        reporter.line(f"! {warning}")
