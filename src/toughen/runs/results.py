"""What a run leaves as JSON, as typed values: result.json of a seed, results.json and began.json of the run."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..internal.atomic import write_text
from ..tasks import Task, answers_of
from ..tasks.tokenising import IGNORED

Numbers = Mapping[str, float]


def _known(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the dataclass has a field for; files of other versions may hold more."""
    names = {each.name for each in fields(kind)}
    return {key: value for key, value in values.items() if key in names}


@dataclass(frozen=True)
class SeedResult:
    """What one seed reached and what it cost."""

    seed: int
    metrics: Numbers
    best_epoch: float = 0.0
    train_seconds: float = 0.0
    passes: Numbers = field(default_factory=dict[str, float])
    """Forward and backward passes of one micro-batch, on average."""
    seconds_per_step: float | None = None
    peak_memory_mb: float | None = None
    folder: str = ""
    """Where its model and predictions are, below the run folder."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SeedResult":
        return cls(**_known(cls, values))

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class SeedSummary:
    """The seeds of one variant: every result, and mean, sample standard deviation and median of each metric."""

    seeds: Sequence[SeedResult]
    mean: Numbers
    sd: Numbers
    median: Numbers

    @classmethod
    def of(cls, seeds: Sequence[SeedResult]) -> "SeedSummary":
        """Summarize seeds; the standard deviation of one seed is 0."""
        values = {name: [seed.metrics[name] for seed in seeds] for name in seeds[0].metrics}
        return cls(
            seeds,
            {name: statistics.fmean(each) for name, each in values.items()},
            {name: statistics.stdev(each) if len(each) > 1 else 0.0 for name, each in values.items()},
            {name: statistics.median(each) for name, each in values.items()},
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SeedSummary":
        seeds = [SeedResult.from_dict(each) for each in values["seeds"]]
        return cls(seeds, values["mean"], values["sd"], values["median"])

    def to_dict(self) -> dict[str, Any]:
        seeds = [seed.to_dict() for seed in self.seeds]
        return {"seeds": seeds, "mean": self.mean, "sd": self.sd, "median": self.median}


@dataclass(frozen=True)
class MethodRecord:
    """The method that was trained: its name, the given settings, and the object as text."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repr: str = ""


@dataclass(frozen=True)
class Results:
    """results.json: what each seed reached, and with what."""

    path: Path
    task: str
    model: str
    method: MethodRecord
    metric: str
    """The metric that selects the best epoch and the best seed."""
    summary: SeedSummary
    head: str | None = None
    higher_is_better: bool = True
    baseline: SeedSummary | None = None
    data: Mapping[str, int] = field(default_factory=dict[str, int])
    """Split -> number of rows."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: Sequence[str] = ()
    toughen: str = ""

    @property
    def seeds(self) -> Sequence[SeedResult]:
        return self.summary.seeds

    @property
    def mean(self) -> Numbers:
        return self.summary.mean

    @property
    def sd(self) -> Numbers:
        return self.summary.sd

    @property
    def median(self) -> Numbers:
        return self.summary.median

    @property
    def best(self) -> SeedResult:
        """The seed with the best selecting metric; of equals the first."""
        return max(self.seeds, key=lambda seed: seed.metrics[self.metric])

    @classmethod
    def from_dict(cls, path: Path, values: Mapping[str, Any]) -> "Results":
        baseline = values.get("baseline")
        given: dict[str, Any] = _known(cls, values) | {
            "path": path,
            "method": MethodRecord(**_known(MethodRecord, values["method"])),
            "summary": SeedSummary.from_dict(values),
            "baseline": SeedSummary.from_dict(baseline) if baseline else None,
        }
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        return {
            "toughen": self.toughen,
            "task": self.task,
            "model": self.model,
            "head": self.head,
            "method": dict(vars(self.method)),
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            **self.summary.to_dict(),
            "baseline": self.baseline.to_dict() if self.baseline else None,
            "data": self.data,
            "versions": self.versions,
            "hardware": self.hardware,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        """One line: every seed, mean, sd and median of the selecting metric."""
        name = self.metric
        parts = [f"seed {seed.seed} {seed.metrics[name]:.4f}" for seed in self.seeds]
        if len(parts) > 1:
            parts.append(f"mean {self.mean[name]:.4f} ± {self.sd[name]:.4f} (median {self.median[name]:.4f})")
        return f"{name}: {' · '.join(parts)}"


@dataclass(frozen=True)
class RunManifest:
    """began.json: what a run began with; it goes on with the same or not at all."""

    task: str = ""
    labels: Sequence[str] = ()
    head: str = ""
    kind: str = ""
    columns: Sequence[str] = ()
    metrics: Sequence[str] = ()
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    processes: int = 1
    method: Mapping[str, Any] = field(default_factory=dict[str, Any])
    train: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The options of `train` that decide what is learnt."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunManifest":
        train = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("train.")}
        given: dict[str, Any] = {**_known(cls, values), "train": train}
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        values = {**vars(self), **{f"train.{key}": value for key, value in self.train.items()}}
        del values["train"]
        return values | {key: list(values[key]) for key in ("labels", "columns", "metrics")}


def to_tsv(task: Task, logits: Any, labels: Any = None) -> str:
    """The text of predictions/<split>.tsv."""
    labels = None if labels is None or not len(labels) else labels
    chances = probabilities(task, logits)
    lines = [
        "index\tprediction" + ("" if labels is None else "\tlabel") + ("" if chances is None else "\tprobabilities")
    ]
    answers = answers_of(task, logits)
    for row in range(len(answers)):
        told = None if labels is None else labels[row]
        kept = None if task.head != "tokens" or told is None else np.asarray(told) != IGNORED
        cells = [str(row), format_label(task, answers[row], kept)]
        if told is not None:
            cells.append(format_label(task, told, kept))
        if chances is not None:
            cells.append(json.dumps([round(float(value), 6) for value in chances[row]]))
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def write_predictions(path: Path, task: Task, logits: Any, labels: Any = None) -> None:
    write_text(path, to_tsv(task, logits, labels))


def probabilities(task: Task, logits: Any) -> Any:
    """Softmax for classes and choices, a sigmoid each for several labels; nothing for the others."""
    values = np.asarray(logits, dtype=np.float64)
    if task.head == "multilabel":
        return 1 / (1 + np.exp(-values))
    if task.head in ("regression", "tokens"):
        return None
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def format_label(task: Task, answer: Any, kept: Any = None) -> str:
    """An answer in words: the label's name, a number, or JSON where there are several."""
    if task.head == "regression":
        return f"{float(np.asarray(answer).reshape(())):.6g}"
    if task.head == "multilabel":
        return json.dumps([name for name, on in zip(task.labels, answer, strict=True) if on])
    if task.head == "tokens":
        numbers = np.asarray(answer)[: len(kept)][kept] if kept is not None else np.asarray(answer)
        return json.dumps([task.labels[int(number)] for number in numbers])
    return task.labels[int(answer)] if int(answer) >= 0 else ""


def read_predictions(path: Path) -> list[str]:
    """The column `prediction` of a table."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # not at every break that Unicode knows
    place = lines[0].split("\t").index("prediction")
    return [line.split("\t")[place] for line in lines[1:]]
