"""What a run leaves, as typed values: result.json of a seed, results.json and began.json of the run, predictions."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..internal.atomic import write_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..tasks import Task

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Record:
    """Plain values under names; files of other versions may hold more, or less."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        names = {each.name for each in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SeedResult(Record):
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


@dataclass(frozen=True, kw_only=True)
class SeedSummary(Record):
    """The seeds of one variant: every result, and mean, sample standard deviation and median of each metric."""

    seeds: Sequence[SeedResult]
    mean: Numbers
    sd: Numbers
    median: Numbers

    @staticmethod
    def of(seeds: Sequence[SeedResult]) -> "SeedSummary":
        """Summarize seeds; the standard deviation of one seed is 0."""
        values = {name: [seed.metrics[name] for seed in seeds] for name in seeds[0].metrics}
        return SeedSummary(
            seeds=seeds,
            mean={name: statistics.fmean(each) for name, each in values.items()},
            sd={name: statistics.stdev(each) if len(each) > 1 else 0.0 for name, each in values.items()},
            median={name: statistics.median(each) for name, each in values.items()},
        )

    def score(self, metric: str) -> str:
        """Return the mean with its deviation, as text."""
        spread = f" ± {self.sd[metric]:.4f}" if len(self.seeds) > 1 else ""
        return f"{self.mean[metric]:.4f}{spread}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        seeds = [SeedResult.from_dict(each) for each in values["seeds"]]
        return super().from_dict({**values, "seeds": seeds})


@dataclass(frozen=True)
class MethodRecord(Record):
    """The method that was trained: its name, the given settings, and the object as text."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repr: str = ""


@dataclass(frozen=True, kw_only=True)
class Results(SeedSummary):
    """results.json: what each seed reached, and with what.

    Args:
        seeds: The result of each seed.
        mean: Metric -> its mean over seeds.
        sd: Metric -> its standard deviation.
        median: Metric -> its median.
        path: The run folder.
        toughen: The version that trained it.
        task: The name of the task.
        model: The model it began with.
        head: The head of the task.
        method: The method, its options and its cost.
        higher_is_better: Whether a higher metric is better.
        baseline: The results of plain training.
        versions: Package -> version.
        hardware: What it was trained on.
        notes: What a reader of the scores must know.

    Examples:
        >>> run.results.metric
        'accuracy'
    """

    path: Path
    toughen: str = ""
    task: str
    model: str
    head: str | None = None
    method: MethodRecord
    metric: str
    """The metric that selects the best epoch and the best seed."""
    higher_is_better: bool = True
    baseline: SeedSummary | None = None
    data: Mapping[str, int] = field(default_factory=dict[str, int])
    """Split -> number of rows."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: Sequence[str] = ()

    @property
    def best(self) -> SeedResult:
        """The seed with the best selecting metric; of equals the first."""
        return max(self.seeds, key=lambda seed: seed.metrics[self.metric])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        baseline = values.get("baseline")
        typed = {
            "method": MethodRecord.from_dict(values["method"]),
            "baseline": SeedSummary.from_dict(baseline) if baseline else None,
        }
        return super().from_dict({**values, **typed})

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in super().to_dict().items() if key != "path"}

    def __str__(self) -> str:
        """One line: every seed, mean, sd and median of the selecting metric."""
        name = self.metric
        parts = [f"seed {seed.seed} {seed.metrics[name]:.4f}" for seed in self.seeds]
        if len(parts) > 1:
            parts.append(f"mean {self.score(name)} (median {self.median[name]:.4f})")
        return f"{name}: {' · '.join(parts)}"


@dataclass(frozen=True)
class RunManifest(Record):
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
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        train = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("train.")}
        return super().from_dict({**values, "train": train})

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        return values | {f"train.{key}": value for key, value in values.pop("train").items()}


def write_predictions(path: Path, task: "Task", logits: object, labels: Any = None) -> None:
    """Write predictions/<split>.tsv: index, prediction, and if they are known the label and the probabilities."""
    import numpy as np

    from ..tasks import answers_of
    from ..tasks.tokenising import IGNORED

    answers = list(answers_of(task, logits))
    labels = [] if labels is None else list(labels)
    if task.head == "tokens" and labels:
        masks = [np.asarray(row) != IGNORED for row in labels]
        answers = [np.asarray(row)[: len(mask)][mask] for row, mask in zip(answers, masks, strict=True)]
        labels = [np.asarray(row)[mask] for row, mask in zip(labels, masks, strict=True)]
    columns = {"index": [str(row) for row in range(len(answers))], "prediction": [_cell(task, row) for row in answers]}
    if labels:
        columns["label"] = [_cell(task, row) for row in labels]
    if (chances := probabilities(task, logits)) is not None:
        columns["probabilities"] = [json.dumps([round(float(value), 6) for value in row]) for row in chances]
    write_text(path, "".join("\t".join(row) + "\n" for row in (columns, *zip(*columns.values(), strict=True))))


def _cell(task: "Task", answer: object) -> str:
    value = format_label(task, answer)
    return f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def probabilities(task: "Task", logits: object) -> Any:
    """Return the softmax for classes and choices, a sigmoid each for several labels, None for the others."""
    import numpy as np

    values = np.asarray(logits, dtype=np.float64)
    if task.head == "multilabel":
        return 1 / (1 + np.exp(-values))
    if task.head in ("regression", "tokens"):
        return None
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def format_label(task: "Task", answer: Any) -> Any:
    """Return the label's name, a number for regression, or a list of names if there are several."""
    if task.head == "regression":
        import numpy as np

        return float(np.asarray(answer).reshape(()))
    if task.head == "multilabel":
        return [name for name, on in zip(task.labels, answer, strict=True) if on]
    if task.head == "tokens":
        return [task.labels[int(number)] for number in answer]
    return task.labels[int(answer)] if int(answer) >= 0 else ""


def read_predictions(path: Path) -> list[str]:
    """Return the column `prediction` of a table."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # not at every break that Unicode knows
    column = lines[0].split("\t").index("prediction")
    return [line.split("\t")[column] for line in lines[1:]]
