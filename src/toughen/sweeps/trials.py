"""One trial, a setting with a seed. Its run folder holds its whole state, on every engine."""

import copy
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..internal.atomic import remove_folder, write_json, write_text
from ..reports.folder import read_lines
from ..runs.config import Config
from ..runs.config_io import build, merge, normalised, to_yaml
from ..runs.folder import RunFolder
from ..runs.method_config import own_file
from .definition import Settings
from .errors import SweepError

PATH_OPTIONS = ("dir", "train_file", "validation_file", "test_file", "cache_dir")
ATTEMPTS, STOPPED = "attempts.jsonl", "stopped.json"
State = Literal["missing", "done", "stopped", "failed"]


@dataclass(frozen=True)
class Trial:
    """A row of settings with one of the seeds."""

    row: int
    seed: int
    settings: Settings
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True)
class Outcome:
    """The state of a trial, read from its folder."""

    state: State
    score: float | None = None
    iteration: int = 0
    error: str = ""
    seconds: float = 0.0


def trial_folder(row: int, seed: int) -> Path:
    """Return where a trial is, below the folder of the sweep."""
    return Path("trials") / f"{row:03}-seed{seed}"


def make(folder: Path, base: Mapping[str, Any], row: int, seed: int, settings: Settings) -> Trial:
    """Return a trial of a sweep; make its run folder if it does not exist."""
    path = folder / trial_folder(row, seed)
    trial = Trial(row, seed, settings, path)
    if not (path / "config.yaml").is_file():
        config = trial_config({**base, "output_dir": str(path)}, settings, (seed,))
        path.mkdir(parents=True, exist_ok=True)
        write_text(path / "config.yaml", to_yaml(config))
    return trial


def trial_config(base: Mapping[str, Any], settings: Mapping[str, Any], seeds: tuple[int, ...]) -> Config:
    """Build the config of these settings; unknown and wrong options raise, as in any config."""
    values = merge(copy.deepcopy(dict(base)), normalised(settings))
    return build({**absolute_paths(values), "seed": list(seeds)})


def absolute_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make local paths absolute: workers may have another working directory."""
    absolute = dict(values)
    model, data, method = (values.get(key) for key in ("model", "data", "method"))
    if model is not None and Path(str(model)).exists():
        absolute["model"] = str(Path(str(model)).resolve())
    if isinstance(data, Mapping):
        paths = {key: data[key] for key in PATH_OPTIONS if data.get(key) is not None}
        absolute["data"] = {**data, **{key: str(Path(str(path)).resolve()) for key, path in paths.items()}}
    if isinstance(method, Mapping) and "name" in method:
        absolute["method"] = {**method, "name": "+".join(map(_absolute_method, str(method["name"]).split("+")))}
    return absolute


def _absolute_method(name: str) -> str:
    path, key = own_file(name.strip())
    return name if path is None else f"{Path(path).resolve()}:{key}"


def outcome(folder: Path, metric: str) -> Outcome:
    """Read the state of a trial from its folder; a trial without a result is missing.

    A recorded stop takes precedence: the trial may still have written results after it was asked to stop.
    """
    if (folder / STOPPED).is_file():
        stop = json.loads((folder / STOPPED).read_text(encoding="utf-8"))
        return Outcome("stopped", stop["score"], int(stop["iteration"]))
    file, known = folder / "results.json", scores(folder, metric)
    if file.is_file():
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
            seconds = sum(float(seed["train_seconds"]) for seed in results["seeds"])
            score = float(results["mean"][metric])
        except (ValueError, KeyError, TypeError):  # results.json is written atomically: something else changed it
            raise SweepError(
                f"{file} is broken or has no {metric}; delete its folder to run the trial again."
            ) from None
        return Outcome("done", score, len(known), seconds=seconds)
    score, iteration = (known[-1], len(known)) if known else (None, 0)
    for attempt in read_lines(folder / ATTEMPTS)[-1:]:
        if attempt["last"]:
            return Outcome("failed", score, iteration, str(attempt["error"]))
    return Outcome("missing", score, iteration)


def scores(folder: Path, metric: str) -> list[float]:
    """List the metric after each evaluation so far."""
    rows, key = read_lines(folder / "metrics.jsonl"), f"eval_{metric}"
    values = [row[key] for row in rows if row.get("arm") == "method" and key in row]
    return [math.nan if value is None else float(value) for value in values]


def note_attempt(folder: Path, error: str, last: bool) -> None:
    """Record the error of an attempt; after the last one the trial counts as failed."""
    append(folder / ATTEMPTS, {"error": error, "last": last})


def note_stop(folder: Path, iteration: int, score: float) -> None:
    """Record that the trial was stopped early; it is not run again."""
    write_json(folder / STOPPED, {"iteration": iteration, "score": score})


def clear_stopped(folder: Path) -> None:
    """Delete the checkpoints of a trial that was stopped early: they are large, and it is not run again."""
    if (folder / STOPPED).is_file() and not RunFolder(folder).config().train.keep_checkpoints:
        for checkpoint in folder.glob("seeds/*/checkpoint-*"):
            remove_folder(checkpoint)


def append(file: Path, row: Mapping[str, Any]) -> None:
    """Append a line of JSON and sync it to disk; a partial line that a crash left is closed first."""
    with file.open("a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                out.write(b"\n")
        out.write(json.dumps(row).encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
