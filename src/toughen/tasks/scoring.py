"""The metrics of a task, from the outputs of a model and the labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from .spec import Task
from .tokenising import IGNORED

Notes = list[str]
Score = Callable[[Any, Any, Notes], float]


def _sklearn() -> Any:
    return require("sklearn.metrics", "tasks")


def accuracy(answers: Any, labels: Any, notes: Notes) -> float:
    """Share of rows that are right."""
    return float(_sklearn().accuracy_score(labels, answers))


def f1(answers: Any, labels: Any, notes: Notes) -> float:
    """F1 of class 1, as GLUE has it for MRPC and QQP."""
    if not np.any(labels == 1) and not np.any(answers == 1):
        notes.append("f1: class 1 is neither in the labels nor in the answers; 0.0 by convention")
    return float(
        require("sklearn.metrics", "tasks").f1_score(labels, answers, labels=[1], average="macro", zero_division=0)
    )


def f1_macro(answers: Any, labels: Any, notes: Notes) -> float:
    """Mean of the classes' F1."""
    return float(_sklearn().f1_score(labels, answers, average="macro", zero_division=0))


def f1_micro(answers: Any, labels: Any, notes: Notes) -> float:
    """F1 over all decisions together, for several labels a row."""
    return float(_sklearn().f1_score(labels, answers, average="micro", zero_division=0))


def exact(answers: Any, labels: Any, notes: Notes) -> float:
    """Share of rows whose labels are all right."""
    return float(np.mean(np.all(answers == labels, axis=-1)))


def matthews(answers: Any, labels: Any, notes: Notes) -> float:
    """Matthews correlation, CoLA's metric."""
    if len(np.unique(labels)) < 2 or len(np.unique(answers)) < 2:
        notes.append("matthews: labels or answers are all one class; 0.0 by convention")
        return 0.0
    return float(_sklearn().matthews_corrcoef(labels, answers))


def pearson(answers: Any, labels: Any, notes: Notes) -> float:
    """Linear correlation."""
    return _correlation("pearson", require("scipy.stats", "tasks").pearsonr, answers, labels, notes)


def spearman(answers: Any, labels: Any, notes: Notes) -> float:
    """Rank correlation; ties get their mean rank."""
    return _correlation("spearman", require("scipy.stats", "tasks").spearmanr, answers, labels, notes)


def mse(answers: Any, labels: Any, notes: Notes) -> float:
    """Mean squared error; the smaller, the better."""
    return float(np.mean((answers - labels) ** 2))


def _correlation(name: str, function: Any, answers: Any, labels: Any, notes: Notes) -> float:
    if len(labels) < 2 or np.all(answers == answers[0]) or np.all(labels == labels[0]):
        notes.append(f"{name}: labels or answers are constant, a correlation is not defined; 0.0 by convention")
        return 0.0
    value = float(function(answers, labels)[0])
    if not np.isfinite(value):
        notes.append(f"{name}: labels or answers are as good as constant; 0.0 by convention")
        return 0.0
    return value


Tags = Sequence[Sequence[str]]
_CLOSING = {"L-": "E-", "U-": "S-"}


def entity_tag(name: str) -> str:
    """A tag as seqeval knows it: of BILOU's L- and U-, for last and single words, it loses or merges neighbours."""
    return _CLOSING.get(name[:2], name[:2]) + name[2:]


def entity_scores(answers: Tags, labels: Tags, strict: bool, notes: Notes) -> dict[str, float]:
    """Precision, recall and F1 of whole entities by seqeval; `strict` takes B- and I- by the letter of IOB2."""
    seqeval = require("seqeval.metrics", "tasks")
    settings: dict[str, Any] = {"zero_division": 0}
    if strict:
        settings |= {"mode": "strict", "scheme": require("seqeval.scheme", "tasks").IOB2}
    y_true, y_pred = [list(row) for row in labels], [list(row) for row in answers]
    if not any(tag != "O" for row in y_true for tag in row):
        notes.append("entity_f1: there is no entity in the labels; 0.0 by convention")
        return dict.fromkeys(("entity_f1", "entity_precision", "entity_recall"), 0.0)
    return {
        "entity_f1": float(seqeval.f1_score(y_true, y_pred, **settings)),
        "entity_precision": float(seqeval.precision_score(y_true, y_pred, **settings)),
        "entity_recall": float(seqeval.recall_score(y_true, y_pred, **settings)),
    }


SCORES: dict[str, Score] = {
    score.__name__: score for score in (accuracy, f1, f1_macro, f1_micro, exact, matthews, pearson, spearman, mse)
}


_ENTITY = ("entity_f1", "entity_precision", "entity_recall")


class Scores(dict[str, float]):
    """Metric names and values, with notes on values that are a convention and not a measurement."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metrics:
    """Scores of a task: call it with predictions (logits, or answers already) and labels."""

    task: Task
    strict: bool = False

    def __call__(self, predictions: Any, labels: Any) -> Scores:
        """All metrics of the task; the first selects the best epoch."""
        notes: list[str] = []
        y_true = np.asarray(labels) if not _is_ragged(labels) else labels
        answers = answers_of(self.task, predictions)
        if len(answers) != len(y_true):
            raise ValueError(f"there are {len(answers)} predictions and {len(y_true)} labels; they must be as many.")
        if not len(y_true):
            raise ValueError("there is nothing to score; give at least one row.")
        values = (
            self._tokens(answers, y_true, notes) if self.task.head == "tokens" else self._rows(answers, y_true, notes)
        )
        scores = Scores({name: values[name] for name in self.task.metrics})
        scores.notes = tuple(notes)
        return scores

    def _rows(self, answers: Any, labels: Any, notes: list[str]) -> dict[str, float]:
        if self.task.head == "regression":
            labels = labels.reshape(len(labels)).astype(np.float64)
        return {name: SCORES[name](answers, labels, notes) for name in self.task.metrics}

    def _tokens(self, answers: Any, labels: Any, notes: list[str]) -> dict[str, float]:
        y_pred, y_true = kept_tokens(answers, labels)
        values: dict[str, float] = {}
        if set(self.task.metrics) & set(_ENTITY):
            names = [entity_tag(name) for name in self.task.labels]
            written = [[[names[number] for number in row] for row in rows] for rows in (y_pred, y_true)]
            values = entity_scores(written[0], written[1], self.strict, notes)
        flat_pred, flat_true = np.concatenate(y_pred), np.concatenate(y_true)
        values["token_accuracy"] = float(np.mean(flat_pred == flat_true)) if len(flat_true) else 0.0
        return values


def metrics(task: Task, *, strict: bool = False) -> Metrics:
    """The metrics of a task; `strict` counts entities by the letter of IOB2."""
    return Metrics(task, strict)


def compute_metrics(task: Task, *, strict: bool = False) -> Any:
    """The same as a function for `transformers.Trainer(compute_metrics=...)`."""
    score = Metrics(task, strict)

    def compute(output: Any) -> dict[str, float]:
        predictions = output.predictions
        # Models that return more than logits hand over a tuple, logits first.
        return dict(score(predictions[0] if isinstance(predictions, tuple) else predictions, output.label_ids))

    return compute


def answers_of(task: Task, predictions: Any) -> Any:
    """Class numbers, values or several labels from logits; what is an answer already is left as it is.

    For a set that tests another task, the classes of that task are folded onto its own (HANS: three onto two).
    """
    if task.head == "tokens" and _is_ragged(predictions):
        return predictions
    values = np.asarray(predictions)
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        check_numbers(values)
    if task.head == "regression":
        return values.reshape(len(values)).astype(np.float64)
    if task.head == "multilabel":
        return (values > 0).astype(np.int64) if np.issubdtype(values.dtype, np.floating) else values
    deep = 3 if task.head == "tokens" else 2
    numbers = values.argmax(axis=-1) if values.ndim == deep else values
    if task.class_map and (values.ndim < deep or values.shape[-1] == len(task.class_map)):
        numbers = np.asarray(task.class_map)[numbers]
    return numbers


def check_numbers(rows: Any) -> None:
    """Refuse logits that are NaN: the largest of them would be the first class, an answer like any other."""
    broken = sum(bool(np.isnan(row).any()) for row in rows)
    if broken:
        raise ValueError(f"{broken} of {len(rows)} predictions are NaN: training diverged; lower the learning rate.")


def kept_tokens(answers: Any, labels: Any) -> tuple[list[Any], list[Any]]:
    """Row by row the answers and labels of first pieces; the ignored positions fall away."""
    masks = [np.asarray(row) != IGNORED for row in labels]
    y_true = [np.asarray(row)[mask] for row, mask in zip(labels, masks, strict=True)]
    y_pred = [np.asarray(row)[: len(mask)][mask] for row, mask in zip(answers, masks, strict=True)]
    return y_pred, y_true


def _is_ragged(rows: Any) -> bool:
    return isinstance(rows, (list, tuple)) and len({np.shape(row) for row in rows}) > 1
