"""Metrics with intervals, calibration, confusion, and scores by class and by slice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runs.results import probabilities as chances_of
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
    """Slice by slice the group of every row: negation where there are texts, overlap where there are two."""
    columns = [column for column in task.columns if rows and isinstance(rows[0].get(column), str)]
    if not columns:
        return {}
    joined = [" ".join(str(row[column]) for column in columns) for row in rows]
    found = {"negation": ["with" if _NEGATION.search(text) else "without" for text in joined]}
    if task.kind == "pair" and len(columns) == 2:
        found["words of the second text in the first"] = [
            _overlap(*(str(row[each]) for each in columns)) for row in rows
        ]
    return found


def _overlap(first: str, second: str) -> str:
    known, asked = set(_WORD.findall(first.lower())), _WORD.findall(second.lower())
    share = sum(word in known for word in asked) / max(1, len(asked))
    return next(name for edge, name in _OVERLAPS if share < edge)


_FEW = 12  # a column with more values than this is no slice


@dataclass(frozen=True)
class Evaluation:
    """One model on one split. `kind` is "clean"; evaluations of changed rows name what changed them."""

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
        """The metric that selects."""
        return float(self.metrics[self.metric]["value"] or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """As evaluations/<name>.json has it; attacks have files of their own."""
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
    """Metrics with intervals, calibration, confusion, scores by class and by slice."""
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


def probabilities(task: Task, logits: Any) -> Any:
    """Those of the model's classes, folded together where the set folds them (HANS)."""
    values = chances_of(task, logits)
    if task.class_map and values.shape[1] == len(task.class_map):
        values = values @ np.eye(len(task.labels))[list(task.class_map)]
    return values


def _calibration(task: Task, outputs: Outputs) -> dict[str, Any]:
    # Two of three classes folded together may be likelier than the third, which is the model's answer.
    answers = answers_of(task, outputs.logits)
    return calibration(probabilities(task, outputs.logits), outputs.labels, answers)


def _counts(task: Task, outputs: Outputs) -> Any:
    size = len(task.labels)
    cells = np.asarray(outputs.labels) * size + np.asarray(answers_of(task, outputs.logits))
    return np.bincount(cells, minlength=size * size).reshape(size, size)


def _confusion(task: Task, outputs: Outputs) -> dict[str, Any]:
    return {"labels": list(task.labels), "counts": _counts(task, outputs).tolist()}


def _per_class(task: Task, outputs: Outputs) -> dict[str, dict[str, float]]:
    counts = _counts(task, outputs).astype(float)
    right, true_counts, predicted_counts = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    precision, recall = right / np.maximum(predicted_counts, 1), right / np.maximum(true_counts, 1)
    f1 = 2 * right / np.maximum(true_counts + predicted_counts, 1)
    columns = zip(task.labels, precision.tolist(), recall.tolist(), f1.tolist(), true_counts.tolist(), strict=True)
    return {label: {"precision": p, "recall": r, "f1": f, "rows": int(n)} for label, p, r, f, n in columns}


def _slices(task: Task, outputs: Outputs, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[dict[str, Any]]]:
    """The selecting metric by thirds of length, and by the values of further columns of the set."""
    found: dict[str, list[dict[str, Any]]] = {}
    lengths = np.asarray(outputs.lengths)
    edges = np.unique(np.quantile(lengths, [1 / 3, 2 / 3], method="inverted_cdf").astype(int))
    group = np.searchsorted(edges, lengths, side="left")
    found["length in tokens"] = [
        _slice(task, outputs, group == g, f"{lengths[group == g].min()}-{lengths[group == g].max()}")
        for g in np.unique(group)
    ]
    for column, values in columns.items():
        kinds = list(dict.fromkeys(map(str, values)))
        if 1 < len(kinds) <= _FEW:
            groups = np.array(list(map(str, values)))
            found[column] = [_slice(task, outputs, groups == kind, kind) for kind in kinds]
    return found


def _slice(task: Task, outputs: Outputs, chosen: Any, name: str) -> dict[str, Any]:
    places = np.flatnonzero(chosen)
    logits, labels = ([values[i] for i in places] for values in (outputs.logits, outputs.labels))
    if task.head != "tokens":
        logits, labels = np.stack(logits), np.stack(labels)
    scores = metrics(task)(logits, labels)
    return {
        "name": name,
        "rows": len(places),
        task.primary_metric: scores[task.primary_metric],
        "notes": list(scores.notes),
    }
