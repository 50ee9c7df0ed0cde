"""Measure outputs: metrics with intervals, calibration, confusion, and scores by class and by slice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import require
from ..runs.results import probabilities as class_probabilities
from ..tasks import answers_of, interval, metrics
from ..tasks.calibration import calibration
from ..tasks.spec import Task
from .outputs import Outputs

if TYPE_CHECKING:
    from ..attacks.runner import AttackResult


_NEGATION = re.compile(r"\b(no|not|never|none|nobody|nothing|nowhere|neither|nor|cannot|without)\b|n't\b|n’t\b", re.I)
_WORD = re.compile(r"\w+")
_OVERLAPS = ((1 / 3, "under a third"), (2 / 3, "a third to two thirds"), (1.01, "over two thirds"))


def text_slices(task: Task, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return slice by slice the group of every row: negation where there are texts, overlap where there are two."""
    columns = [column for column in task.columns if rows and isinstance(rows[0].get(column), str)]
    if not columns:
        return {}
    joined = [" ".join(str(row[column]) for column in columns) for row in rows]
    groups = {"negation": ["with" if _NEGATION.search(text) else "without" for text in joined]}
    if task.kind == "pair" and len(columns) == 2:
        overlaps = [_overlap(*(str(row[column]) for column in columns)) for row in rows]
        groups["words of the second text in the first"] = overlaps
    return groups


def _overlap(first: str, second: str) -> str:
    known, asked = set(_WORD.findall(first.lower())), _WORD.findall(second.lower())
    share = sum(word in known for word in asked) / max(1, len(asked))
    return next(name for edge, name in _OVERLAPS if share < edge)


_MOST_SLICES = 12  # a column with more values than this is no slice


@dataclass(frozen=True)
class Evaluation:
    """One model on one split. `kind` is "clean"; evaluations of changed rows name what changed them.

    Args:
        name: The name of its file.
        task: The name of the task.
        split: The split that was scored.
        rows: How many rows it has.
        metric: The metric that decides.
        kind: "clean", or what changed the rows.
        model: The folder of the model.
        source: The file of the rows, if they are the user's own.
        calibration: The calibration error and its bins.
        per_class: Class -> precision, recall, F1.
        slices: Kind -> scores of its slices.
        notes: What a reader of the scores must know.

    Examples:
        >>> found.split, found.metric
        ('validation', 'accuracy')
    """

    name: str
    task: str
    split: str
    rows: int
    metric: str
    metrics: Mapping[str, Mapping[str, float | None]]
    """Name -> value, low, high (95 % bootstrap over rows)."""
    kind: str = "clean"
    model: str = ""
    source: str | None = None
    calibration: Mapping[str, Any] | None = None
    confusion: Mapping[str, Any] | None = None
    """Rows are labels, columns answers."""
    per_class: Mapping[str, Mapping[str, float]] | None = None
    slices: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, Any])
    notes: Sequence[str] = ()
    attacks: "Sequence[AttackResult]" = ()
    """What became of the model under attack; each is in a file of its own, attacks/<name>.json."""

    @property
    def score(self) -> float:
        """Value of the metric that selects."""
        return float(self.metrics[self.metric]["value"] or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return what evaluations/<name>.json has; attacks have files of their own."""
        fields = asdict(replace(self, attacks=()))
        del fields["attacks"]
        return fields


def measure(
    task: Task,
    outputs: Outputs,
    *,
    name: str,
    split: str = "validation",
    columns: Mapping[str, Sequence[Any]] | None = None,
    samples: int = 1000,
    **about: Any,
) -> Evaluation:
    """Return metrics with intervals, calibration, confusion, scores by class and by slice.

    Args:
        task: The task.
        outputs: The model's outputs.
        name: The name of the evaluation.
        split: The split the rows are of.
        columns: The text columns, for slices by length.
        samples: Bootstrap samples of an interval.
        about: Further fields of `Evaluation`.

    Returns:
        The evaluation.

    Examples:
        >>> import numpy
        >>> outputs = toughen.evaluation.Outputs(numpy.eye(2), numpy.arange(2), numpy.array([5, 7]))
        >>> scored = toughen.evaluation.measure(toughen.tasks.task("rte"), outputs, name="mine")
        >>> scored.metrics["accuracy"]["value"]
        1.0
    """
    scores = metrics(task)(outputs.logits, outputs.labels)
    notes = [*scores.notes, *about.pop("notes", ())]
    table = {key: _with_interval(task, outputs, key, value, samples, notes) for key, value in scores.items()}
    classes = task.head == "classes"
    return Evaluation(
        name=name,
        task=task.name,
        split=split,
        rows=len(outputs.labels),
        metric=task.primary_metric,
        metrics=table,
        calibration=_calibration(task, outputs) if classes or task.head == "choices" else None,
        confusion=_confusion(task, outputs) if classes else None,
        per_class=_per_class(task, outputs) if classes else None,
        slices=_slices(task, outputs, columns or {}),
        notes=notes,
        **about,
    )


def _with_interval(
    task: Task, outputs: Outputs, metric: str, value: float, samples: int, notes: list[str]
) -> dict[str, float | None]:
    try:
        found = interval(task, outputs.logits, outputs.labels, metric, samples=samples)
    except ValueError as problem:  # a metric that has none
        notes.append(str(problem))
        return {"value": value, "low": None, "high": None}
    return {"value": value, "low": found.low, "high": found.high}


def probabilities(task: Task, logits: object) -> Any:
    """Return those of the model's classes, folded together where the set folds them (HANS)."""
    values = class_probabilities(task, logits)
    if task.class_map and values.shape[1] == len(task.class_map):
        values = values @ np.eye(len(task.labels))[list(task.class_map)]
    return values


def _calibration(task: Task, outputs: Outputs) -> dict[str, Any]:
    # Two of three classes folded together may be likelier than the third, which is the model's answer.
    answers = answers_of(task, outputs.logits)
    return calibration(probabilities(task, outputs.logits), outputs.labels, answers)


def _confusion(task: Task, outputs: Outputs) -> dict[str, Any]:
    counts = require("sklearn.metrics", "tasks").confusion_matrix(
        outputs.labels, answers_of(task, outputs.logits), labels=range(len(task.labels))
    )
    return {"labels": list(task.labels), "counts": counts.tolist()}


def _per_class(task: Task, outputs: Outputs) -> dict[str, dict[str, float]]:
    scores = require("sklearn.metrics", "tasks").precision_recall_fscore_support(
        outputs.labels, answers_of(task, outputs.logits), labels=range(len(task.labels)), zero_division=0
    )
    names = ("precision", "recall", "f1", "rows")
    rows = zip(*(values.tolist() for values in scores), strict=True)
    return {label: dict(zip(names, row, strict=True)) for label, row in zip(task.labels, rows, strict=True)}


def length_groups(lengths: Sequence[int]) -> list[str]:
    """Return the third by length that each row is in, such as "7-12"."""
    values = np.asarray(lengths).astype(int)
    edges = np.unique(np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf").astype(int))
    group = np.searchsorted(edges, values, side="left")
    names = {number: f"{values[group == number].min()}-{values[group == number].max()}" for number in np.unique(group)}
    return [names[number] for number in group]


def _slices(task: Task, outputs: Outputs, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the selecting metric by thirds of length, and by the values of further columns of the set."""
    thirds = np.array(length_groups(outputs.lengths))
    names = sorted(set(thirds.tolist()), key=lambda name: int(name.partition("-")[0]))
    slices = {"length in tokens": [_slice(task, outputs, thirds == name, name) for name in names]}
    for column, values in columns.items():
        groups = np.array(list(map(str, values)))
        kinds = list(dict.fromkeys(groups.tolist()))
        if 1 < len(kinds) <= _MOST_SLICES:
            slices[column] = [_slice(task, outputs, groups == kind, kind) for kind in kinds]
    return slices


def _slice(task: Task, outputs: Outputs, mask: Any, name: str) -> dict[str, Any]:
    rows = np.flatnonzero(mask)
    logits, labels = ([values[row] for row in rows] for values in (outputs.logits, outputs.labels))
    if task.head != "tokens":
        logits, labels = np.stack(logits), np.stack(labels)
    scores = metrics(task)(logits, labels)
    return {
        "name": name,
        "rows": len(rows),
        task.primary_metric: scores[task.primary_metric],
        "notes": list(scores.notes),
    }
