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
from shlex import quote
from statistics import fmean
from typing import Any

from ..attacks.summary import AttackSummary, Score, finite
from ..runs.folder import RunFolder
from ..runs.results import Results, RunManifest, SeedResult
from .attacks import Arm, Attack, mean_attacks

ARMS: tuple[Arm, ...] = ("method", "baseline")
PLAIN = "plain baseline"
PathLike = str | os.PathLike[str]


class ReportError(ValueError):
    """A folder that is no run, or a run that holds too little.

    Examples:
        >>> try:
        ...     toughen.reports.read_run("missing")
        ... except toughen.reports.ReportError as error:
        ...     print(error)
        missing does not exist...
    """


@dataclass(frozen=True)
class Predictions:
    """One split of one seed: answers as they were written, labels and probabilities where they are known."""

    answers: list[str]
    labels: list[str] | None
    probabilities: list[list[float]] | None


@dataclass(frozen=True)
class ClassScore:
    """How well one class is found."""

    label: str
    rows: int
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where both are."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @classmethod
    def of(cls, label: str, right: int, answered: int, rows: int) -> "ClassScore":
        """Score a class from its answers, its correct answers and its rows."""
        return cls(label, rows, right / max(1, answered), right / max(1, rows))


@dataclass(frozen=True)
class ErrorSummary:
    """Where a model errs, and whether it knows: confusion and calibration, as far as they are known."""

    name: str
    labels: Sequence[str] = ()
    counts: Sequence[Sequence[int]] = ()
    """Rows are labels, columns answers."""
    ece: float | None = None
    bins: Sequence[Mapping[str, float]] = ()
    """Of a reliability plot: rows, confidence, accuracy."""
    scores: Sequence[ClassScore] = ()
    """Of heads with several labels a row, which have no confusion."""
    amounts: Sequence[tuple[float, float]] = ()
    """Label and answer of each row of a regression."""

    @property
    def classes(self) -> Sequence[ClassScore]:
        """The scores of every class."""
        answered = [sum(column) for column in zip(*self.counts, strict=True)]
        rows = zip(self.labels, self.counts, strict=True) if self.counts else ()
        own = [ClassScore.of(label, row[at], answered[at], sum(row)) for at, (label, row) in enumerate(rows)]
        return self.scores or own

    @property
    def confused(self) -> Sequence[tuple[str, str, int]]:
        """Label, wrong answer and count, the most frequent first."""
        pairs = [
            (self.labels[down], self.labels[across], count)
            for down, row in enumerate(self.counts)
            for across, count in enumerate(row)
            if down != across and count
        ]
        return sorted(pairs, key=lambda pair: -pair[2])

    @property
    def deviations(self) -> tuple[float, float] | None:
        """Root mean square and mean absolute error of amounts."""
        gaps = [answer - label for label, answer in self.amounts]
        if not gaps:
            return None
        return math.sqrt(fmean(gap * gap for gap in gaps)), fmean(map(abs, gaps))


@dataclass(frozen=True)
class Slice:
    """The score on some of the rows."""

    name: str
    rows: int
    score: float | None


@dataclass(frozen=True)
class Evaluation:
    """evaluations/<name>.json, as far as a page shows it."""

    metric: str
    score: Score | None
    """The selecting metric; None if it was not finite."""
    errors: ErrorSummary
    slices: Mapping[str, Sequence[Slice]]
    """What the rows are grouped by -> the groups."""

    @classmethod
    def from_dict(cls, name: str, fields: Mapping[str, Any]) -> "Evaluation":
        """Read an evaluation; raise AttributeError, KeyError or TypeError if it is none."""
        metric = str(fields["metric"])
        score = fields["metrics"][metric]
        errors = {**(fields.get("confusion") or {}), **(fields.get("calibration") or {})}
        slices = {
            kind: [Slice(row["name"], row["rows"], finite(row[metric])) for row in rows if metric in row]
            for kind, rows in (fields.get("slices") or {}).items()
        }
        known = finite(score.get("value")) is not None
        return cls(metric, Score.from_dict(score) if known else None, ErrorSummary(name, **errors), slices)


def is_numeric(cells: Sequence[str]) -> bool:
    """Return whether there are numbers with a point: a regression's. Names may have one too (sci.med)."""
    return any("." in cell and re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) for cell in cells)


@dataclass(frozen=True)
class Run:
    """One run folder, read.

    Args:
        results: What results.json holds.

    Examples:
        >>> toughen.reports.read_run(run.path).method
        'freelb'
    """

    results: Results
    title: str = ""
    """Its name beside runs whose folders have the same name."""

    @property
    def path(self) -> Path:
        return self.results.path

    @property
    def name(self) -> str:
        return self.title or self.path.resolve().name

    @property
    def method(self) -> str:
        return self.results.method.name

    @property
    def metric(self) -> str:
        return self.results.metric

    @cached_property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """What its models answer with, names of classes or the kind of head: files called alike may be other tasks."""
        manifest = self.folder.manifest() if self.folder.manifest_file.is_file() else RunManifest()
        return tuple(sorted(map(str, manifest.labels))) or (manifest.head,)

    @cached_property
    def head(self) -> str:
        """The kind of its labels: classes, regression, tokens ...; "" where nothing says so."""
        return self.folder.manifest().head if self.folder.manifest_file.is_file() else ""

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a last line cut off by a crash is left out."""
        return read_lines(self.folder.metrics_file)

    @cached_property
    def config(self) -> str:
        file = self.folder.config_file
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        """What `toughen evaluate` left, by name; the run's own split first: what the others are held against."""
        evaluations: dict[str, Evaluation] = {}
        files = (self.path / "evaluations").glob("*.json")
        for file in sorted(files, key=lambda each: (each.stem not in ("clean", "validation"), each.stem)):
            fields = read_json(file)
            try:
                evaluations[file.stem] = Evaluation.from_dict(str(fields.get("name") or file.stem), fields)
            except (AttributeError, KeyError, TypeError) as error:
                raise ReportError(f"{file} is no evaluation: {error!r}.") from None
        return evaluations

    @cached_property
    def attacks(self) -> list[Attack]:
        """Every attack on the method and on its plain baseline; where all seeds were attacked, their mean."""
        summaries: dict[str, AttackSummary] = {}
        for file in sorted((self.path / "attacks").glob("*.json")):
            fields = read_json(file)
            try:
                summaries[file.stem] = AttackSummary.from_dict(fields)
            except (KeyError, TypeError, ValueError) as error:
                raise ReportError(f"{file} is no attack's summary: {error!r}.") from None
        return mean_attacks(summaries)

    def attacked_rows(self, attack: Attack) -> list[dict[str, Any]]:
        """Return the examples of an attack, attacks/<name>.jsonl; none where none were kept."""
        return read_lines(self.path / "attacks" / f"{attack.sources[0]}.jsonl")

    def outcomes(self, source: str) -> list[dict[str, Any]]:
        """Return every row that one model was attacked on: attacked examples, or answers at each strength."""
        folder = self.path / "attacks"
        return read_lines(folder / f"{source}.jsonl") or read_lines(folder / f"{source}.rows.jsonl")

    def diagnostics(self, name: str) -> dict[str, Any] | None:
        """Return what was measured when the best seed ended and its model does not show, such as masks."""
        best = self.best()
        file = self.folder.seed_folder("method", best.seed) / "diagnostics" / f"{name}.json" if best else None
        return read_json(file) if file and file.is_file() else None

    def best(self, arm: Arm = "method") -> SeedResult | None:
        """Return the seed with the best selecting metric; None where there is none."""
        scores = self.scores(arm)
        return max(self.seeds(arm), key=lambda each: scores.get(each.seed, -math.inf), default=None)

    def seeds(self, arm: Arm = "method") -> Sequence[SeedResult]:
        """Return the seeds of the method, or of the plain baseline run beside it."""
        part = self.results if arm == "method" else self.results.baseline
        return part.seeds if part else ()

    def scores(self, arm: Arm = "method", metric: str | None = None) -> dict[int, float]:
        """Return the metric of every seed that has it; one that was not finite was written as null."""
        scores = {each.seed: finite(each.metrics.get(metric or self.metric)) for each in self.seeds(arm)}
        return {seed: score for seed, score in scores.items() if score is not None}

    def predictions(self, seed: int, split: str = "validation", arm: Arm = "method") -> Predictions | None:
        """Return the predictions of a seed, None where they were not written."""
        file = self.folder.seed_folder(arm, seed) / "predictions" / f"{split}.tsv"
        return _predictions(file) if file.is_file() else None


def explain_not_a_run(folder: Path) -> str:
    """Say why a folder without results is no run, and what to give instead."""
    if not folder.exists():
        return "does not exist; check the path."
    if (folder / "trials").is_dir():
        return f"is a sweep: give its runs, {folder / 'trials'}/*; its own table is in leaderboard.html."
    if _is_unfinished(folder):
        return f"has no results yet; continue with: toughen train --resume {quote(str(folder))}"
    return "has no results.json: give the folder of a finished run."


def read_run(path: PathLike) -> Run:
    """Read a run folder, or say why it is none.

    Args:
        path: The run folder.

    Returns:
        Results, logs, predictions and attacks of the run.

    Raises:
        ReportError: No run, or one that is not finished.

    Examples:
        >>> toughen.reports.read_run(run.path).metric
        'accuracy'
    """
    folder = Path(path)
    file = RunFolder(folder).results_file
    if not file.is_file():
        raise ReportError(f"{folder} {explain_not_a_run(folder)}")
    fields = read_json(file)
    try:
        return Run(Results.from_dict({"model": "", "mean": {}, "sd": {}, "median": {}, **fields, "path": folder}))
    except (KeyError, TypeError) as error:
        raise ReportError(f"{file} is not the results of a toughen run: {error!r}.") from None


def find_runs(paths: Sequence[PathLike], skipped: list[str] | None = None) -> list[Run]:
    """Read the runs at these paths; a folder of runs stands for all of them, in order of their names.

    With `skipped`, unfinished runs among several are left out, and a line about each is added to it.

    Args:
        paths: Run folders, or folders of runs.
        skipped: Takes a line about each unfinished run among several.

    Returns:
        The runs.

    Raises:
        ReportError: A folder without a finished run.

    Examples:
        >>> toughen.reports.find_runs([run])[0].metric
        'accuracy'
    """
    runs: list[Run] = []
    for path in map(Path, paths):
        inside = [] if RunFolder(path).results_file.is_file() else sorted(path.glob("*/results.json"))
        if skipped is not None:
            alone = [path] if len(paths) > 1 else []
            within = [] if RunFolder(path).config_file.is_file() else sorted(path.glob("*/"))
            unfinished = [each for each in (*alone, *within) if _is_unfinished(each)]
            skipped += [f"{each} is left out: it {explain_not_a_run(each)}" for each in unfinished]
            if path in unfinished:
                continue
        runs += [read_run(file.parent) for file in inside] if inside else [read_run(path)]
    # A run that is named twice is one run: its seeds would count double.
    runs = list({run.path.resolve(): run for run in runs}.values())
    if not runs:
        raise ReportError("there is no finished run to report on: give one or more run folders.")
    return unique_names(runs)


def _is_unfinished(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.config_file.is_file() and not folder.results_file.is_file()


def unique_names(runs: Sequence[Run]) -> list[Run]:
    """Give each run a name of its own: to folders of the same name as many of their parents as it takes."""
    if len({run.name for run in runs}) == len(runs):
        return list(runs)
    parts = [run.path.resolve().parts for run in runs]
    named: list[Run] = []
    for run, own in zip(runs, parts, strict=True):
        depth = 1
        while depth < len(own) and sum(other[-depth:] == own[-depth:] for other in parts) > 1:
            depth += 1
        named.append(replace(run, title="/".join(own[-depth:])))
    return named


def read_json(file: Path) -> dict[str, Any]:
    """Read the object in a file, or raise an error that names it."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{file} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ReportError(f"{file} holds no JSON object.")
    return value


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Read the objects in a file of JSON lines, none where there is no file; what a crash cut off is left out."""
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
            rows.append(row)
    return rows


def _predictions(file: Path) -> Predictions:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        probabilities = [json.loads(row["probabilities"]) for row in rows if row.get("probabilities")]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{file} is no table of predictions, or cut off: {error}.") from None
    if rows and "prediction" not in rows[0]:
        raise ReportError(f"{file} has no column 'prediction'; it has {', '.join(rows[0])}.")
    labels = [row["label"] for row in rows if row.get("label")]
    return Predictions(
        [row["prediction"] for row in rows],
        labels if rows and len(labels) == len(rows) else None,
        probabilities if rows and len(probabilities) == len(rows) else None,
    )
