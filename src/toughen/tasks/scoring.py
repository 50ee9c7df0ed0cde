"""The metrics of a task, from a model's outputs and the labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .scores import SCORES, entity_scores, entity_tag
from .spec import Task
from .tokenising import IGNORED

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
        told = np.asarray(labels) if not _is_ragged(labels) else labels
        answers = answers_of(self.task, predictions)
        if len(answers) != len(told):
            raise ValueError(f"there are {len(answers)} predictions and {len(told)} labels; they must be as many.")
        if not len(told):
            raise ValueError("there is nothing to score; give at least one row.")
        values = self._tokens(answers, told, notes) if self.task.head == "tokens" else self._rows(answers, told, notes)
        scores = Scores({name: values[name] for name in self.task.metrics})
        scores.notes = tuple(notes)
        return scores

    def _rows(self, answers: Any, labels: Any, notes: list[str]) -> dict[str, float]:
        if self.task.head == "regression":
            labels = labels.reshape(len(labels)).astype(np.float64)
        return {name: SCORES[name](answers, labels, notes) for name in self.task.metrics}

    def _tokens(self, answers: Any, labels: Any, notes: list[str]) -> dict[str, float]:
        found, told = kept_tokens(answers, labels)
        values: dict[str, float] = {}
        if set(self.task.metrics) & set(_ENTITY):
            names = [entity_tag(name) for name in self.task.labels]
            written = [[[names[number] for number in row] for row in rows] for rows in (found, told)]
            values = entity_scores(written[0], written[1], self.strict, notes)
        flat_found, flat_told = np.concatenate(found), np.concatenate(told)
        values["token_accuracy"] = float(np.mean(flat_found == flat_told)) if len(flat_told) else 0.0
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
    if task.fold and (values.ndim < deep or values.shape[-1] == len(task.fold)):
        numbers = np.asarray(task.fold)[numbers]
    return numbers


def check_numbers(rows: Any) -> None:
    """Refuse logits that are NaN: the largest of them would be the first class, an answer like any other."""
    broken = sum(bool(np.isnan(row).any()) for row in rows)
    if broken:
        raise ValueError(f"{broken} of {len(rows)} predictions are NaN: training diverged; lower the learning rate.")


def kept_tokens(answers: Any, labels: Any) -> tuple[list[Any], list[Any]]:
    """Row by row the answers and labels of first pieces; the ignored positions fall away."""
    masks = [np.asarray(row) != IGNORED for row in labels]
    told = [np.asarray(row)[mask] for row, mask in zip(labels, masks, strict=True)]
    found = [np.asarray(row)[: len(mask)][mask] for row, mask in zip(answers, masks, strict=True)]
    return found, told


def _is_ragged(rows: Any) -> bool:
    return isinstance(rows, (list, tuple)) and len({np.shape(row) for row in rows}) > 1
