"""Single metrics: GLUE's own, entity F1, and what goes with other heads; each a function of answers and labels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._extra import extra

Notes = list[str]
Score = Callable[[Any, Any, Notes], float]


def accuracy(answers: Any, labels: Any, notes: Notes) -> float:
    """Share of rows that are right."""
    return float(extra("sklearn.metrics").accuracy_score(labels, answers))


def f1(answers: Any, labels: Any, notes: Notes) -> float:
    """F1 of class 1, as GLUE has it for MRPC and QQP."""
    if not np.any(labels == 1) and not np.any(answers == 1):
        notes.append("f1: class 1 is neither in the labels nor in the answers; 0.0 by convention")
    return float(extra("sklearn.metrics").f1_score(labels, answers, labels=[1], average="macro", zero_division=0))


def f1_macro(answers: Any, labels: Any, notes: Notes) -> float:
    """Mean of the classes' F1."""
    return float(extra("sklearn.metrics").f1_score(labels, answers, average="macro", zero_division=0))


def f1_micro(answers: Any, labels: Any, notes: Notes) -> float:
    """F1 over all decisions together, for several labels a row."""
    return float(extra("sklearn.metrics").f1_score(labels, answers, average="micro", zero_division=0))


def exact(answers: Any, labels: Any, notes: Notes) -> float:
    """Share of rows whose labels are all right."""
    return float(np.mean(np.all(answers == labels, axis=-1)))


def matthews(answers: Any, labels: Any, notes: Notes) -> float:
    """Matthews correlation, CoLA's metric."""
    if len(np.unique(labels)) < 2 or len(np.unique(answers)) < 2:
        notes.append("matthews: labels or answers are all one class; 0.0 by convention")
        return 0.0
    return float(extra("sklearn.metrics").matthews_corrcoef(labels, answers))


def pearson(answers: Any, labels: Any, notes: Notes) -> float:
    """Linear correlation."""
    return _correlation("pearson", extra("scipy.stats").pearsonr, answers, labels, notes)


def spearman(answers: Any, labels: Any, notes: Notes) -> float:
    """Rank correlation; ties get their mean rank."""
    return _correlation("spearman", extra("scipy.stats").spearmanr, answers, labels, notes)


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
    seqeval = extra("seqeval.metrics")
    settings: dict[str, Any] = {"zero_division": 0}
    if strict:
        settings |= {"mode": "strict", "scheme": extra("seqeval.scheme").IOB2}
    told, found = [list(row) for row in labels], [list(row) for row in answers]
    if not any(tag != "O" for row in told for tag in row):
        notes.append("entity_f1: there is no entity in the labels; 0.0 by convention")
        return dict.fromkeys(("entity_f1", "entity_precision", "entity_recall"), 0.0)
    return {
        "entity_f1": float(seqeval.f1_score(told, found, **settings)),
        "entity_precision": float(seqeval.precision_score(told, found, **settings)),
        "entity_recall": float(seqeval.recall_score(told, found, **settings)),
    }


SCORES: dict[str, Score] = {
    score.__name__: score for score in (accuracy, f1, f1_macro, f1_micro, exact, matthews, pearson, spearman, mse)
}
