"""Score the outputs of a model against labels, by scikit-learn, SciPy and seqeval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from .spec import Task
from .tokenising import IGNORED

_METRICS = "sklearn.metrics"
SCORES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # name: module, function, options
    "accuracy": (_METRICS, "accuracy_score", {}),
    # F1 of class 1, as GLUE has it for MRPC and QQP
    "f1": (_METRICS, "f1_score", {"labels": [1], "average": "macro", "zero_division": 0}),
    "f1_macro": (_METRICS, "f1_score", {"average": "macro", "zero_division": 0}),
    # over all decisions together, for several labels a row
    "f1_micro": (_METRICS, "f1_score", {"average": "micro", "zero_division": 0}),
    # of several labels a row, the share of rows whose labels are all right
    "exact": (_METRICS, "accuracy_score", {}),
    "matthews": (_METRICS, "matthews_corrcoef", {}),
    "pearson": ("scipy.stats", "pearsonr", {}),
    "spearman": ("scipy.stats", "spearmanr", {}),
    "mse": (_METRICS, "mean_squared_error", {}),
}
_ENTITY = ("entity_f1", "entity_precision", "entity_recall")
_CLOSING = {"L-": "E-", "U-": "S-"}


def _score(name: str, y_pred: Any, y_true: Any, notes: list[str]) -> float:
    """Return one metric; where it is not defined it is 0, and a note says so."""
    module, function, options = SCORES[name]
    constant = name in ("matthews", "pearson", "spearman") and any((each == each[0]).all() for each in (y_pred, y_true))
    if constant:
        notes.append(f"{name}: labels or answers are constant, a correlation is not defined; 0.0 by convention")
        return 0.0
    if name == "f1" and not np.any(y_true == 1) and not np.any(y_pred == 1):
        notes.append("f1: class 1 is neither in the labels nor in the answers; 0.0 by convention")
    score = getattr(require(module, "tasks"), function)(y_true, y_pred, **options)
    value = float(score[0] if module == "scipy.stats" else score)
    if not np.isfinite(value):
        notes.append(f"{name}: labels or answers are as good as constant; 0.0 by convention")
        return 0.0
    return value


def entity_tag(name: str) -> str:
    """Return a tag as seqeval knows it: of BILOU's L- and U-, for last and single words, it loses neighbours."""
    return _CLOSING.get(name[:2], name[:2]) + name[2:]


class Scores(dict[str, float]):
    """Metric names and values, with notes on values that are a convention and not a measurement."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metrics:
    """Scores of a task: call it with predictions (logits, or answers already) and labels.

    Args:
        task: The task.
        strict: Count entities only as IOB2 spells them.

    Examples:
        >>> toughen.tasks.Metrics(toughen.tasks.task("rte"))([0, 1], [0, 1])["accuracy"]
        1.0
    """

    task: Task
    strict: bool = False

    def __call__(self, predictions: Any, labels: Any) -> Scores:
        """Return all metrics of the task; the first selects the best epoch."""
        notes: list[str] = []
        y_true = np.asarray(labels) if not _is_ragged(labels) else labels
        answers = answers_of(self.task, predictions)
        if len(answers) != len(y_true):
            raise ValueError(
                f"there are {len(answers)} predictions and {len(y_true)} labels; give one prediction per label."
            )
        if not len(y_true):
            raise ValueError("there is nothing to score; give at least one row.")
        values = (
            self._tokens(answers, y_true, notes) if self.task.head == "tokens" else self._rows(answers, y_true, notes)
        )
        scores = Scores({name: values[name] for name in self.task.metrics})
        scores.notes = tuple(notes)
        return scores

    def _rows(self, y_pred: Any, y_true: Any, notes: list[str]) -> dict[str, float]:
        if self.task.head == "regression":
            y_true = y_true.reshape(len(y_true)).astype(np.float64)
        return {name: _score(name, y_pred, y_true, notes) for name in self.task.metrics}

    def _tokens(self, answers: object, labels: object, notes: list[str]) -> dict[str, float]:
        y_pred, y_true = kept_tokens(answers, labels)
        flat_pred, flat_true = np.concatenate(y_pred), np.concatenate(y_true)
        values = {"token_accuracy": float(np.mean(flat_pred == flat_true)) if len(flat_true) else 0.0}
        if set(self.task.metrics) & set(_ENTITY):
            names = [entity_tag(name) for name in self.task.labels]
            tags = [[[names[number] for number in row] for row in rows] for rows in (y_true, y_pred)]
            values |= self._entities(tags[0], tags[1], notes)
        return values

    def _entities(
        self, y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]], notes: list[str]
    ) -> dict[str, float]:
        """Return precision, recall and F1 of complete entities."""
        if not any(tag != "O" for row in y_true for tag in row):
            notes.append("entity_f1: there is no entity in the labels; 0.0 by convention")
            return dict.fromkeys(_ENTITY, 0.0)
        seqeval = require("seqeval.metrics", "tasks")
        options: dict[str, Any] = {"zero_division": 0}
        if self.strict:  # B- and I- by the letter of IOB2
            options |= {"mode": "strict", "scheme": require("seqeval.scheme", "tasks").IOB2}
        scores = {name: getattr(seqeval, f"{name.removeprefix('entity_')}_score") for name in _ENTITY}
        return {name: float(score(y_true, y_pred, **options)) for name, score in scores.items()}


def metrics(task: Task, *, strict: bool = False) -> Metrics:
    """Return the metrics of a task; `strict` counts entities by the letter of IOB2.

    Args:
        task: The task.
        strict: Count entities only as IOB2 spells them.

    Returns:
        A function from predictions and labels to scores by name.

    Examples:
        >>> toughen.tasks.metrics(toughen.tasks.task("rte"))([0, 1, 1, 0], [0, 1, 1, 1])["accuracy"]
        0.75
    """
    return Metrics(task, strict)


def compute_metrics(task: Task, *, strict: bool = False) -> Any:
    """Return the same as a function for `transformers.Trainer(compute_metrics=...)`.

    Args:
        task: The task.
        strict: Count entities only as IOB2 spells them.

    Returns:
        A function from predictions and labels to scores by name.

    Examples:
        >>> function = toughen.tasks.compute_metrics(toughen.tasks.task("rte"))
    """
    score = Metrics(task, strict)

    def compute(output: Any) -> dict[str, float]:
        predictions = output.predictions
        # Models that return more than logits hand over a tuple, logits first.
        return dict(score(predictions[0] if isinstance(predictions, tuple) else predictions, output.label_ids))

    return compute


def answers_of(task: Task, predictions: object) -> Any:
    """Return class numbers, values or several labels from logits; what is an answer already is left as it is.

    For a set that tests another task, the classes of that task are folded onto its own (HANS: three onto two).

    Args:
        task: The task.
        predictions: Logits or probabilities, or answers.

    Returns:
        One answer for each row.

    Examples:
        >>> toughen.tasks.answers_of(toughen.tasks.task("rte"), [[0.1, 0.9], [0.8, 0.2]]).tolist()
        [1, 0]
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
    """Return row by row the answers and labels of first pieces, without the ignored positions."""
    masks = [np.asarray(row) != IGNORED for row in labels]
    y_true = [np.asarray(row)[mask] for row, mask in zip(labels, masks, strict=True)]
    y_pred = [np.asarray(row)[: len(mask)][mask] for row, mask in zip(answers, masks, strict=True)]
    return y_pred, y_true


def _is_ragged(rows: object) -> bool:
    return isinstance(rows, (list, tuple)) and len({np.shape(row) for row in rows}) > 1
