"""Measure whether probabilities mean what they say."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Bin(NamedTuple):
    """One bar of a reliability plot."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


def reliability(probabilities: object, labels: object, bins: int = 15, answers: object = None) -> list[Bin]:
    """Return confidence and accuracy in bins of equal width over the probability of the answer.

    `answers` are the classes answered with, where they are not the likeliest ones.

    Args:
        probabilities: A row for each text, a column for each class.
        labels: The class numbers of the rows.
        bins: Bins of equal width.
        answers: The classes answered with, where they are not the likeliest ones.

    Returns:
        The bins, from low to high probability; some may have no rows.

    Examples:
        >>> toughen.tasks.reliability([[0.1, 0.9], [0.1, 0.9]], [1, 0], bins=5)[-1].accuracy
        0.5
    """
    table, y_true = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if table.ndim != 2 or not np.allclose(table.sum(axis=1), 1, atol=1e-3):
        raise ValueError("reliability needs probabilities, rows that sum to 1; apply softmax to logits first.")
    chosen = table.argmax(axis=1) if answers is None else np.asarray(answers)
    probability, correct = table[np.arange(len(table)), chosen], chosen == y_true
    # The lowest bin holds 0 as well; every other bin holds its upper edge.
    index = np.clip(np.ceil(probability * bins).astype(int) - 1, 0, bins - 1)
    rows = np.bincount(index, minlength=bins)
    some = np.maximum(rows, 1)
    confidence = np.bincount(index, weights=probability, minlength=bins) / some
    accuracy = np.bincount(index, weights=correct, minlength=bins) / some
    return [
        Bin(number / bins, (number + 1) / bins, int(rows[number]), float(confidence[number]), float(accuracy[number]))
        for number in range(bins)
    ]


def calibration_error(probabilities: object, labels: object, bins: int = 15) -> float:
    """Return the expected calibration error (Guo et al., ICML 2017): mean gap of confidence and accuracy by rows.

    Args:
        probabilities: A row for each text, a column for each class.
        labels: The class numbers of the rows.
        bins: Bins of equal width.

    Returns:
        The error, from 0 to 1; 0 is best.

    Examples:
        >>> round(toughen.tasks.calibration_error([[0.1, 0.9], [0.2, 0.8]], [1, 1]), 2)
        0.15
    """
    return _error(reliability(probabilities, labels, bins))


def calibration(probabilities: object, labels: object, answers: object = None) -> dict[str, Any]:
    """Return both in plain values, as evaluations and pages hold them: `ece` and `bins`."""
    table = reliability(probabilities, labels, answers=answers)
    return {"ece": _error(table), "bins": [each._asdict() for each in table]}


def fit_temperature(leads: object) -> float:
    """Return the temperature T at which `sigmoid(lead / T)`, the probability of the right class, is the likeliest.

    `leads` say how far the logit of the right class is above the best other one in each row. Two rows are added at the
    median distance from 0, one right and one wrong: where every answer is right, the likelihood alone has no optimum.
    T lies within 1/20 and 20 times that distance, and leads times c give T times c.
    """
    values = np.asarray(leads, dtype=np.float64)
    usual = float(np.median(np.abs(values))) if len(values) else 0.0
    if not usual:
        return 1.0
    units = np.append(values / usual, (1.0, -1.0))
    low, high = np.log((1 / 20, 20.0))  # of the inverse temperature; the negative log-likelihood is convex in it
    for _ in range(50):
        middle = (low + high) / 2
        slope = -(units * (1 - np.tanh(np.exp(middle) * units / 2))).sum()
        low, high = (middle, high) if slope < 0 else (low, middle)
    return usual / float(np.exp((low + high) / 2))


def _error(bins: Sequence[Bin]) -> float:
    return sum(each.rows * abs(each.confidence - each.accuracy) for each in bins) / sum(each.rows for each in bins)
