"""A run folder as the reports see it: results, log, predictions, evaluations, attacks; nothing of it is changed."""

import csv
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

Arm = str  # "method" or "baseline"


class ReportError(ValueError):
    """A folder that is no run, or a run that holds too little."""


@dataclass(frozen=True)
class Predictions:
    """One split of one seed: answers as they were written, labels and probabilities where they are known."""

    answers: list[str]
    labels: list[str] | None
    probabilities: list[list[float]] | None


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether there are numbers with a point among them: a regression's. Names may have one too (sci.med)."""
    return any("." in cell and re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) for cell in cells)


@dataclass(frozen=True)
class Run:
    """One run folder, read."""

    path: Path
    results: Mapping[str, Any]
    title: str = ""
    """What it is called beside runs whose folders have the same name."""

    @property
    def name(self) -> str:
        return self.title or self.path.resolve().name

    @property
    def method(self) -> str:
        return str(self.results["method"]["name"])

    @property
    def metric(self) -> str:
        return str(self.results["metric"])

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """What its models answer with, names of classes or the kind of head: files called alike may be other tasks."""
        file = self.path / "began.json"
        manifest = read_json(file) if file.is_file() else {}
        return tuple(sorted(map(str, manifest.get("labels") or ()))) or (str(manifest.get("head", "")),)

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a last line cut off by a crash is left out."""
        return read_lines(self.path / "metrics.jsonl")

    @cached_property
    def config(self) -> str:
        file = self.path / "config.yaml"
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    @cached_property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """What `toughen evaluate` left, by name."""
        found: dict[str, dict[str, Any]] = {}
        files = (self.path / "evaluations").glob("*.json")
        # The run's own split first: what the others are held against.
        for file in sorted(files, key=lambda each: (each.stem not in ("clean", "validation"), each.stem)):
            fields = found[file.stem] = read_json(file)
            scores = fields.get("metrics")
            if not isinstance(scores, dict) or not isinstance(scores.get(str(fields.get("metric"))), dict):
                raise ReportError(f"{file} is no evaluation: 'metrics' does not have what 'metric' names.")
        return found

    @cached_property
    def attacks(self) -> dict[str, dict[str, Any]]:
        """What attacks left, by name: attacks/*.json."""
        return {file.stem: read_json(file) for file in sorted((self.path / "attacks").glob("*.json"))}

    def attacked_rows(self, name: str) -> list[dict[str, Any]]:
        """The examples of an attack, attacks/<name>.jsonl; empty where none were kept."""
        return read_lines(self.path / "attacks" / f"{name}.jsonl")

    def diagnostics(self, name: str, seed: int) -> dict[str, Any] | None:
        """What training saw at its end and the saved model does not show, such as an adversary's masks."""
        file = self.seed_folder(seed) / "diagnostics" / f"{name}.json"
        return read_json(file) if file.is_file() else None

    def seed_folder(self, seed: int, arm: Arm = "method") -> Path:
        return self.path / ("seeds" if arm == "method" else "baseline") / str(seed)

    def best(self, arm: Arm = "method") -> dict[str, Any] | None:
        """The seed with the best selecting metric; None where there is none."""
        scores = self.scores(arm)
        return max(self.seeds(arm), key=lambda s: scores.get(int(s["seed"]), -math.inf), default=None)

    def seeds(self, arm: Arm = "method") -> list[dict[str, Any]]:
        """The seeds of the method, or of the plain baseline run beside it."""
        part = self.results if arm == "method" else self.results.get("baseline") or {}
        return list(cast("Sequence[dict[str, Any]]", part.get("seeds") or ()))

    def scores(self, arm: Arm = "method", metric: str | None = None) -> dict[int, float]:
        """The metric of every seed that has it; one that was not finite was written as null."""
        name = metric or self.metric
        found = {int(s["seed"]): finite(s["metrics"].get(name)) for s in self.seeds(arm)}
        return {seed: score for seed, score in found.items() if score is not None}

    def predictions(self, seed: int, split: str = "validation", arm: Arm = "method") -> Predictions | None:
        """The predictions of a seed, None where they were not written."""
        file = self.seed_folder(seed, arm) / "predictions" / f"{split}.tsv"
        return _predictions(file) if file.is_file() else None


def explain_not_a_run(folder: Path) -> str:
    """Why a folder without results is no run, and what to give instead."""
    if not folder.exists():
        return "does not exist; check the path."
    if (folder / "trials").is_dir():
        return f"is a sweep: give its runs, {folder / 'trials'}/*; its own table is in leaderboard.html."
    return "has no results.json: give the folder of a finished run."


def read_run(path: "str | os.PathLike[str]") -> Run:
    """Read a run folder, or say why it is none."""
    folder = Path(path)
    file = folder / "results.json"
    if not file.is_file():
        raise ReportError(f"{folder} {explain_not_a_run(folder)}")
    results = read_json(file)
    if missing := [key for key in ("task", "method", "metric", "seeds") if key not in results]:
        raise ReportError(f"{file} has no {missing[0]!r}: it is not the results of a toughen run.")
    return Run(folder, results)


def find_runs(paths: "Sequence[str | os.PathLike[str]]") -> list[Run]:
    """The runs at these paths; a folder of runs stands for all of them, in order of their names."""
    found: list[Run] = []
    for path in map(Path, paths):
        inside = [] if (path / "results.json").is_file() else sorted(path.glob("*/results.json"))
        found += [read_run(file.parent) for file in inside] if inside else [read_run(path)]
    # A run that is named twice is one run: its seeds would count double.
    found = list({run.path.resolve(): run for run in found}.values())
    if not found:
        raise ReportError("there is no run to report on: give one or more run folders.")
    return unique_names(found)


def unique_names(runs: Sequence[Run]) -> list[Run]:
    """Runs with names of their own: folders of the same name are told by as many of their parents as it takes."""
    if len({run.name for run in runs}) == len(runs):
        return list(runs)
    parts = [run.path.resolve().parts for run in runs]
    made: list[Run] = []
    for run, own in zip(runs, parts, strict=True):
        depth = 1
        while depth < len(own) and sum(other[-depth:] == own[-depth:] for other in parts) > 1:
            depth += 1
        made.append(replace(run, title="/".join(own[-depth:])))
    return made


def finite(value: Any) -> float | None:
    """The value as a number, None where it is none: logs of broken runs hold NaN and words."""
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    return number if math.isfinite(number) else None


def read_json(file: Path) -> dict[str, Any]:
    """The object in a file, or an error that names it."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{file} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ReportError(f"{file} holds no object.")
    return cast("dict[str, Any]", value)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines, none where there is no file; what a crash cut off is left out."""
    rows: list[dict[str, Any]] = []
    # Not splitlines: a text may hold a line separator of Unicode's, and JSON leaves it as it is.
    # A crash may cut a letter of several bytes.
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(cast("dict[str, Any]", row))
    return rows


def _predictions(file: Path) -> Predictions:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        probabilities = [json.loads(row["probabilities"]) if row.get("probabilities") else None for row in rows]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{file} is no table of predictions, or cut off: {error}.") from None
    if rows and "prediction" not in rows[0]:
        raise ReportError(f"{file} has no column 'prediction'; it has {', '.join(rows[0])}.")
    known = bool(rows) and all(row.get("label") not in (None, "") for row in rows)
    spread = bool(rows) and None not in probabilities
    return Predictions(
        [row["prediction"] for row in rows],
        [row["label"] for row in rows] if known else None,
        cast("list[list[float]]", probabilities) if spread else None,
    )
