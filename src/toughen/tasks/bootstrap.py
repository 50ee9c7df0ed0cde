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
    """A score with its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class _Sums:
    """A metric as a function of sums over rows: resampling is then one matrix product."""

    rows: Any
    score: Callable[[Any], Any]


def interval(
    task: Task,
    predictions: Any,
    labels: Any,
    metric: str | None = None,
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the percentile bootstrap interval of a metric (by default the primary one); `seed` draws the rows."""
    return _interval(_resampled(task, metric or task.primary_metric, predictions, labels, samples, seed), level)


def difference(
    task: Task,
    first: Any,
    second: Any,
    labels: Any,
    metric: str | None = None,
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the interval of score(first) - score(second) on the same resampled rows (paired bootstrap)."""
    name = metric or task.primary_metric
    one, two = (_resampled(task, name, predictions, labels, samples, seed) for predictions in (first, second))
    return _interval(one - two, level)


def _interval(values: Any, level: float) -> Interval:
    """Return the interval of `values`: a score, then its resamples."""
    low, high = np.quantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values[0]), float(low), float(high))


def _resampled(task: Task, name: str, predictions: Any, labels: Any, samples: int, seed: int) -> Any:
    """Return the score of all rows, then the score of every resample."""
    answers = answers_of(task, predictions)
    rows = len(labels)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(1, rows))
    if name == "spearman":
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
    x, y = rank(y_pred, axis=1), rank(y_true, axis=1)
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    return _ratio((x * y).sum(axis=1), np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1)))


def _sums(task: Task, name: str, answers: Any, labels: Any) -> _Sums:
    if task.head == "tokens":
        return _token_sums(task, name, answers, labels)
    y_true = np.asarray(labels)
    if name in ("accuracy", "exact"):
        right = (answers == y_true).reshape(len(y_true), -1).all(axis=1)
        return _Sums(np.stack([right, np.ones_like(right)], axis=1).astype(float), lambda s: s[:, 0] / s[:, 1])
    if name == "mse":
        error = (answers - y_true.reshape(len(y_true))) ** 2
        return _Sums(np.stack([error, np.ones_like(error)], axis=1), lambda s: s[:, 0] / s[:, 1])
    if name == "pearson":
        x, y = _unit(np.asarray(answers, dtype=np.float64)), _unit(y_true.reshape(len(y_true)).astype(np.float64))
        return _Sums(np.stack([x, y, x * x, y * y, x * y, np.ones_like(x)], axis=1), _pearson)
    if task.head == "multilabel":
        hits = np.stack([answers * y_true, answers, y_true], axis=1).astype(float)
        if name == "f1_micro":
            return _Sums(hits.sum(axis=2), lambda s: _ratio(2 * s[:, 0], s[:, 1] + s[:, 2]))
        return _Sums(hits.reshape(len(y_true), -1), lambda s: _f1(s.reshape(len(s), 3, -1)).mean(axis=1))
    classes = max(len(task.labels), int(answers.max()) + 1, int(y_true.max()) + 1)
    one = np.eye(classes)
    hits = np.stack([one[answers] * one[y_true], one[answers], one[y_true]], axis=1)
    by_class: dict[str, Callable[[Any], Any]] = {
        "f1": lambda s: _f1(s)[:, 1],
        "f1_macro": _mean_f1,
        "matthews": _matthews,
    }
    if name not in by_class:
        raise ValueError(f"no bootstrap interval for {name!r}.")
    return _Sums(hits.reshape(len(y_true), -1), lambda s: by_class[name](s.reshape(len(s), 3, classes)))


def _token_sums(task: Task, name: str, answers: Any, labels: Any) -> _Sums:
    y_pred, y_true = kept_tokens(answers, labels)
    if name == "token_accuracy":
        counts = [[float((f == t).sum()), float(len(t))] for f, t in zip(y_pred, y_true, strict=True)]
        return _Sums(np.array(counts), lambda s: _ratio(s[:, 0], s[:, 1]))
    spans = require("seqeval.metrics.sequence_labeling", "tasks").get_entities
    names = [entity_tag(name) for name in task.labels]
    counts = []
    for f, t in zip(y_pred, y_true, strict=True):
        a, b = (set(spans([names[number] for number in row])) for row in (f, t))
        counts.append([float(len(a & b)), float(len(a)), float(len(b))])
    score: dict[str, Callable[[Any], Any]] = {
        "entity_f1": lambda s: _ratio(2 * s[:, 0], s[:, 1] + s[:, 2]),
        "entity_precision": lambda s: _ratio(s[:, 0], s[:, 1]),
        "entity_recall": lambda s: _ratio(s[:, 0], s[:, 2]),
    }
    return _Sums(np.array(counts), score[name])


def _unit(values: Any) -> Any:
    """Scale to mean 0 and deviation 1; constant values become zeros, so that `_ratio` returns 0 for them."""
    away, spread = values - values.mean(), values.std()
    return away / spread if spread > 1e-13 * np.abs(values).max() else np.zeros_like(away)


def _ratio(top: Any, bottom: Any) -> Any:
    """A fraction that is 0 where it is not defined."""
    return np.divide(top, bottom, out=np.zeros_like(top, dtype=float), where=bottom > 1e-12)


def _mean_f1(sums: Any) -> Any:
    """Mean over the classes that occur, as scikit-learn has it for one class a row."""
    there = (sums[:, 1] + sums[:, 2]) > 0
    return _ratio(_f1(sums).sum(axis=1), there.sum(axis=1).astype(float))


def _f1(sums: Any) -> Any:
    return _ratio(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def _matthews(sums: Any) -> Any:
    """The many-class form (Gorodkin 2004), equal to the usual one for two classes."""
    right, rows = sums[:, 0].sum(axis=1), sums[:, 1].sum(axis=1)
    y_pred, y_true = sums[:, 1], sums[:, 2]
    top = right * rows - (y_pred * y_true).sum(axis=1)
    bottom = np.sqrt((rows**2 - (y_pred**2).sum(axis=1)) * (rows**2 - (y_true**2).sum(axis=1)))
    return _ratio(top, bottom)


def _pearson(sums: Any) -> Any:
    x, y, xx, yy, xy, rows = sums.T
    covariance = xy - x * y / rows
    return _ratio(covariance, np.sqrt(np.maximum(xx - x * x / rows, 0) * np.maximum(yy - y * y / rows, 0)))
