"""One trial, a setting with a seed: its run folder is its whole truth, whoever ran it and however that ended."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..internal.atomic import remove_folder, write_json, write_text
from ..reports.folder import read_lines
from ..runs.config_io import to_yaml
from ..runs.folder import RunFolder
from .configs import trial_config
from .definition import Settings
from .errors import SweepError

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
    """How a trial stands, by its folder."""

    state: State
    score: float | None = None
    iteration: int = 0
    error: str = ""
    seconds: float = 0.0


def make(folder: Path, base: Mapping[str, Any], row: int, seed: int, settings: Settings) -> Trial:
    """A trial of a sweep's folder; its run folder is made where it is not there yet."""
    place = folder / "trials" / f"{row:03}-seed{seed}"
    trial = Trial(row, seed, settings, place)
    if not (place / "config.yaml").is_file():
        config = trial_config({**base, "output_dir": str(place)}, settings, (seed,))
        place.mkdir(parents=True, exist_ok=True)
        write_text(place / "config.yaml", to_yaml(config))
    return trial


def outcome(folder: Path, metric: str) -> Outcome:
    """What the folder says of its trial; a trial that ended without a word is missing.

    A stop goes before all: a trial that was told at its end to stop may have come to its results, or to another score.
    """
    if (folder / STOPPED).is_file():
        told = json.loads((folder / STOPPED).read_text(encoding="utf-8"))
        return Outcome("stopped", told["score"], int(told["iteration"]))
    file = folder / "results.json"
    if file.is_file():
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
            seconds = sum(float(seed["train_seconds"]) for seed in results["seeds"])
            score = float(results["mean"][metric])
        except (ValueError, KeyError, TypeError):  # it is written whole: somebody else has changed it
            raise SweepError(f"{file} is broken or has no {metric}; without its folder the trial runs anew.") from None
        return Outcome("done", score, len(scores(folder, metric)), seconds=seconds)
    seen = scores(folder, metric)
    score, iteration = (seen[-1], len(seen)) if seen else (None, 0)
    tried = attempts(folder)
    if tried and tried[-1]["last"]:
        return Outcome("failed", score, iteration, str(tried[-1]["error"]))
    return Outcome("missing", score, iteration)


def scores(folder: Path, metric: str) -> list[float]:
    """The metric after each evaluation so far."""
    rows = [row for row in read_lines(folder / "metrics.jsonl") if row.get("arm") == "method"]
    found = [row[f"eval_{metric}"] for row in rows if f"eval_{metric}" in row]
    return [math.nan if value is None else float(value) for value in found]


def attempts(folder: Path) -> list[dict[str, Any]]:
    """The attempts at a trial that failed, with their errors."""
    return read_lines(folder / ATTEMPTS)


def note_attempt(folder: Path, error: str, last: bool) -> None:
    """Keep the error of an attempt; after the last one the trial counts as failed."""
    append(folder / ATTEMPTS, {"error": error, "last": last})


def note_stop(folder: Path, iteration: int, score: float) -> None:
    """The trial was stopped early, and is not to be run again."""
    write_json(folder / STOPPED, {"iteration": iteration, "score": score})


def clear_stopped(folder: Path) -> None:
    """Take away the checkpoints of a trial that was stopped early: it is not run again, and they are large."""
    if (folder / STOPPED).is_file() and not RunFolder(folder).config().train.keep_checkpoints:
        for checkpoint in folder.glob("seeds/*/checkpoint-*"):
            remove_folder(checkpoint)


def append(file: Path, row: Mapping[str, Any]) -> None:
    """A line of JSON that is on the disk when this returns; half a line of a crash before it is closed first."""
    with file.open("a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                out.write(b"\n")
        out.write(json.dumps(row).encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
