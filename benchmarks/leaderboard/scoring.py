"""Metrics in numpy alone: the machine with the GPU has neither scikit-learn nor scipy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Score = Callable[[Any, Any], float]


def accuracy(answers: Any, labels: Any) -> float:
    return float(np.mean(np.asarray(answers) == np.asarray(labels)))


def f1(answers: Any, labels: Any) -> float:
    """Of class 1."""
    found, told = np.asarray(answers) == 1, np.asarray(labels) == 1
    whole = found.sum() + told.sum()
    return float(2 * (found & told).sum() / whole) if whole else 0.0


def matthews(answers: Any, labels: Any) -> float:
    """Correlation of two classes; 0 where one of them is never said or never there."""
    return _correlation(np.asarray(answers, dtype=float), np.asarray(labels, dtype=float))


def pearson(answers: Any, labels: Any) -> float:
    return _correlation(np.asarray(answers, dtype=float), np.asarray(labels, dtype=float))


def spearman(answers: Any, labels: Any) -> float:
    """Correlation of ranks, ties with their mean rank."""
    return _correlation(_ranks(np.asarray(answers, dtype=float)), _ranks(np.asarray(labels, dtype=float)))


def entity_f1(answers: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> float:
    """F1 of whole entities over all rows, tags read as conlleval does."""
    both = [(entities(found), entities(told)) for found, told in zip(answers, labels, strict=True)]
    hits, said, there = (
        sum(len(each) for each in kind) for kind in zip(*((f & t, f, t) for f, t in both), strict=True)
    )
    return 2 * hits / (said + there) if said + there else 0.0


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Kind, start and end of every entity; an I- without its B- begins one."""
    found: set[tuple[str, int, int]] = set()
    kind, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if kind and (prefix in "OB" or name != kind):
            found.add((kind, start, place))
            kind = ""
        if prefix == "B" or (prefix == "I" and not kind):
            kind, start = name, place
    return found


def _correlation(x: Any, y: Any) -> float:
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 1e-12 else 0.0


def _ranks(values: Any) -> Any:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


SCORES: dict[str, Score] = {score.__name__: score for score in (accuracy, f1, matthews, pearson, spearman, entity_f1)}
