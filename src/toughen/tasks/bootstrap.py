"""Bootstrap intervals of scores, by seed and without a loop over resamples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import require
from .scoring import answers_of, entity_tag, kept_tokens
from .spec import Task

# Resamples are drawn in parts of about this many numbers, so that memory does not grow with their count.
_CHUNK = 4_000_000


class Interval(NamedTuple):
    """A score with its bootstrap interval.

    Examples:
        >>> toughen.tasks.Interval(0.8, 0.7, 0.9).low
        0.7
    """

    value: float
    """The score."""
    low: float
    """The lower end."""
    high: float
    """The upper end."""


@dataclass(frozen=True)
class _Sums:
    """A metric as a function of sums over rows: resampling is then one matrix product."""

    rows: Any
    score: Callable[[Any], Any]


def interval(
    task: Task,
    predictions: object,
    labels: object,
    metric: str | None = None,
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the percentile bootstrap interval of a metric (by default the primary one); `seed` draws the rows.

    Args:
        task: The task.
        predictions: Logits or answers.
        labels: The rows' labels, in the order of the predictions.
        metric: By default the primary one.
        samples: Bootstrap samples.
        level: The share of samples within the interval.
        seed: Draws the rows.

    Returns:
        The score with the ends of its interval.

    Raises:
        ValueError: Numbers of rows that differ, or a metric without an interval.

    Examples:
        >>> toughen.tasks.interval(toughen.tasks.task("rte"), [0, 1, 1, 0], [0, 1, 1, 1]).value
        0.75
    """
    return _interval(_resampled(task, metric or task.primary_metric, predictions, labels, samples, seed), level)


def difference(
    task: Task,
    first: object,
    second: object,
    labels: object,
    metric: str | None = None,
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the interval of score(first) - score(second) on the same resampled rows (paired bootstrap).

    Args:
        task: The task.
        first: Predictions of one model.
        second: Predictions of the other.
        labels: The rows' labels, in the order of the predictions.
        metric: By default the primary one.
        samples: Bootstrap samples.
        level: The share of samples within the interval.
        seed: Draws the rows.

    Returns:
        The difference with the ends of its interval.

    Raises:
        ValueError: Numbers of rows that differ, or a metric without an interval.

    Examples:
        >>> toughen.tasks.difference(toughen.tasks.task("rte"), [0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0]).value
        0.25
    """
    name = metric or task.primary_metric
    one, two = (_resampled(task, name, predictions, labels, samples, seed) for predictions in (first, second))
    return _interval(one - two, level)


def _interval(values: Any, level: float) -> Interval:
    """Return the interval of `values`: a score, then its resamples."""
    low, high = np.quantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values[0]), float(low), float(high))


def _resampled(task: Task, name: str, predictions: object, labels: Any, samples: int, seed: int) -> Any:
    """Return the score of all rows, then the score of every resample."""
    answers = answers_of(task, predictions)
    rows = len(labels)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(1, rows))
    if name == "spearman":  # ranks change with the rows drawn
        y_true, y_pred = np.asarray(labels, dtype=np.float64).reshape(rows), np.asarray(answers)
        parts = [_ranked(y_pred[None], y_true[None])]
        for start in range(0, samples, step):
            drawn = rng.integers(0, rows, size=(min(step, samples - start), rows))
            parts.append(_ranked(y_pred[drawn], y_true[drawn]))
        return np.concatenate(parts)
    sums = _sums(task, name, answers, labels)
    parts = [sums.score(sums.rows.sum(axis=0, keepdims=True))]
    for start in range(0, samples, step):
        weights = rng.multinomial(rows, np.full(rows, 1 / rows), size=min(step, samples - start))
        parts.append(sums.score(weights.astype(np.float64) @ sums.rows))
    return np.concatenate(parts)


def _ranked(y_pred: Any, y_true: Any) -> Any:
    rank = require("scipy.stats", "tasks").rankdata
    x, y = (rank(values, axis=1) - (values.shape[1] + 1) / 2 for values in (y_pred, y_true))
    return _ratio((x * y).sum(axis=1), np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1)))


def _sums(task: Task, name: str, answers: Any, labels: Any) -> _Sums:
    if task.head == "tokens":
        return _token_sums(task, name, answers, labels)
    y_true = np.asarray(labels)
    if name in ("accuracy", "exact"):
        return _fraction((answers == y_true).reshape(len(y_true), -1).all(axis=1), np.ones(len(y_true)))
    if name == "mse":
        return _fraction((answers - y_true.reshape(len(y_true))) ** 2, np.ones(len(y_true)))
    if name == "pearson":
        return _correlation(_unit(np.asarray(answers)), _unit(y_true.reshape(len(y_true))))
    if task.head != "multilabel":
        one = np.eye(max(len(task.labels), int(answers.max()) + 1, int(y_true.max()) + 1))
        answers, y_true = one[answers], one[y_true]
    if name == "matthews":  # of many classes (Gorodkin 2004): the correlation of the one-hot answers and labels
        return _correlation(answers, y_true)
    hits, counts = 2 * answers * y_true, answers + y_true
    if name == "f1":
        return _fraction(hits[:, 1], counts[:, 1])
    if name == "f1_micro":
        return _fraction(hits.sum(axis=1), counts.sum(axis=1))
    if name == "f1_macro":
        return _fraction(hits, counts, all_classes=task.head == "multilabel")
    raise ValueError(f"no bootstrap interval for {name!r}.")


def _token_sums(task: Task, name: str, answers: object, labels: object) -> _Sums:
    y_pred, y_true = kept_tokens(answers, labels)
    if name == "token_accuracy":
        hits = [(a == b).sum() for a, b in zip(y_pred, y_true, strict=True)]
        return _fraction(np.array(hits), np.array([len(row) for row in y_true]))
    spans = require("seqeval.metrics.sequence_labeling", "tasks").get_entities
    tags = [entity_tag(tag) for tag in task.labels]
    entities = [[set(spans([tags[number] for number in row])) for row in rows] for rows in (y_pred, y_true)]
    predicted, true = (np.array([len(row) for row in rows]) for rows in entities)
    both = np.array([len(a & b) for a, b in zip(*entities, strict=True)])
    fractions = {"entity_f1": (2 * both, predicted + true), "entity_precision": (both, predicted)}
    return _fraction(*fractions.get(name, (both, true)))


def _fraction(top: Any, bottom: Any, all_classes: bool = False) -> _Sums:
    """Return a fraction of two sums over rows; with a column for each class, its mean over the classes that occur."""

    def score(sums: Any) -> Any:
        top, bottom = np.moveaxis(sums.reshape(len(sums), 2, -1), 1, 0)
        classes = bottom.shape[1] if all_classes else (bottom > 0).sum(axis=1)
        return _ratio(_ratio(top, bottom).sum(axis=1), np.broadcast_to(classes, len(sums)))

    return _Sums(np.stack([top, bottom], axis=1).reshape(len(top), -1).astype(float), score)


def _correlation(x: Any, y: Any) -> _Sums:
    """Return the correlation of values, or of vectors with a column for each class."""
    x, y = (values.reshape(len(values), -1).astype(float) for values in (x, y))
    products = [(a * b).sum(axis=1, keepdims=True) for a, b in ((x, y), (x, x), (y, y))]

    def score(sums: Any) -> Any:
        a, b = sums[:, : x.shape[1]], sums[:, x.shape[1] : -3]
        means = ((one * two).sum(axis=1) / len(x) for one, two in ((a, b), (a, a), (b, b)))
        xy, xx, yy = (sums[:, index - 3] - mean for index, mean in enumerate(means))
        return _ratio(xy, np.sqrt(np.maximum(xx, 0) * np.maximum(yy, 0)))

    return _Sums(np.concatenate([x, y, *products], axis=1), score)


def _unit(values: Any) -> Any:
    """Scale to mean 0 and deviation 1; constant values become zeros, so that `_ratio` returns 0 for them."""
    away, spread = values - values.mean(), values.std()
    return away / spread if spread > 1e-13 * np.abs(values).max() else np.zeros_like(away)


def _ratio(top: Any, bottom: Any) -> Any:
    """Return a fraction that is 0 where it is not defined."""
    return np.divide(top, bottom, out=np.zeros_like(top, dtype=float), where=bottom > 1e-12)
