"""The evaluations of runs: scores with intervals, confusion and reliability."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..attacks.summary import Score
from ..tasks.read.rows import as_number
from . import charts
from .drawing import Drawing
from .folder import ARMS, PLAIN, Arm, ClassScore, ErrorSummary, Predictions, Run, is_numeric, read_json
from .formatting import lower_is_better

CLASSES = 30  # a larger confusion matrix cannot be read
COLUMNS, ROWS = 24, 300


def error_summaries(run: Run) -> dict[Arm, ErrorSummary]:
    """Summarize the best seeds' predictions of the test set, or of the validation rows if that has no labels.

    For the method else the first evaluation that has any of it.
    """
    summaries: dict[Arm, ErrorSummary] = {}
    own = run.best()
    tested = run.predictions(own.seed, "test") if own else None
    split = "test" if tested and tested.labels else "validation"
    for arm in ARMS:
        best = run.best(arm)
        predictions = run.predictions(best.seed, split, arm) if best else None
        if predictions and (summary := _from_predictions(predictions, _label_names(run), run.head, split)):
            summaries[arm] = summary
    if "method" not in summaries:
        evaluated = (each.errors for each in run.evaluations.values())
        if first := next((each for each in evaluated if each.counts or each.bins), None):
            summaries["method"] = first
    return summaries


def error_charts(run: Run, summaries: Mapping[Arm, ErrorSummary]) -> list[Drawing]:
    """Draw accuracy over confidence beside the plain baseline's, and the method's confusion."""
    drawings: list[Drawing] = []
    names = {"method": run.method, "baseline": PLAIN}
    curves = {
        f"{names[arm]}: calibration error {summary.ece:.3f}": summary.bins
        for arm in ARMS
        if (summary := summaries.get(arm)) and summary.ece is not None
    }
    if curves:
        note = "On the dotted line a model knows how sure it may be; larger marks are more rows."
        drawings.append(charts.reliability("reliability", curves, note=note))
    for arm, summary in summaries.items():
        if 0 < len(summary.labels) <= CLASSES and summary.counts:
            title = f"confusion, {summary.name}" + (f", {PLAIN}" if arm == "baseline" else "")
            drawings.append(charts.confusion(title, summary.labels, summary.counts))
    amounts = {names[arm]: summary.amounts for arm, summary in summaries.items() if summary.amounts}
    if amounts:
        note = "On the dotted line an answer is right."
        drawings.append(charts.agreement("answers beside labels", amounts, note=note))
    return drawings


def _from_predictions(
    predictions: Predictions, names: list[str] | None, head: str = "", split: str = "validation"
) -> ErrorSummary | None:
    """Return what can be said of the errors, by the head; None if the answers are of no known form."""
    y_true, y_pred = predictions.labels, predictions.answers
    if y_true is None:
        return None
    if head == "regression" or (not head and (is_numeric(y_true) or is_numeric(y_pred))):
        pairs = [(as_number(label), as_number(answer)) for label, answer in zip(y_true, y_pred, strict=True)]
        known = [(label, answer) for label, answer in pairs if label is not None and answer is not None]
        return ErrorSummary(split, amounts=known) if known else None
    if head in ("tokens", "multilabel"):
        return _from_lists(y_true, y_pred, head, split)
    from ..tasks.calibration import calibration

    labels = names or sorted({*y_true, *y_pred})
    index = {str(number): number for number in range(len(labels))} | {name: n for n, name in enumerate(labels)}
    if not {*y_true, *y_pred} <= index.keys():
        return None
    counts = [[0] * len(labels) for _ in labels]
    for label, answer in zip(y_true, y_pred, strict=True):
        counts[index[label]][index[answer]] += 1
    if predictions.probabilities and len(predictions.probabilities[0]) == len(labels):
        numbers = [index[label] for label in y_true]
        return ErrorSummary(split, labels, counts, **calibration(predictions.probabilities, numbers))
    return ErrorSummary(split, labels, counts)


def _from_lists(y_true: Sequence[str], y_pred: Sequence[str], head: str, split: str) -> ErrorSummary | None:
    """Summarize lists: the tags of words, which are confused with each other, or the labels of a row."""
    try:
        rows: list[tuple[list[str], list[str]]] = [
            (json.loads(label), json.loads(answer)) for label, answer in zip(y_true, y_pred, strict=True)
        ]
    except json.JSONDecodeError:
        return None
    if head == "tokens":
        words = Counter(pair for label, answer in rows for pair in zip(label, answer, strict=False))
        tags = sorted({tag for pair in words for tag in pair}, key=lambda tag: (tag != "O", tag))
        return ErrorSummary(split, tags, [[words[label, answer] for answer in tags] for label in tags])
    known = sorted({name for pair in rows for names in pair for name in names})
    scores: list[ClassScore] = []
    for name in known:
        right = sum(name in label and name in answer for label, answer in rows)
        answered, own = (sum(name in pair[side] for pair in rows) for side in (1, 0))
        scores.append(ClassScore.of(name, right, answered, own))
    return ErrorSummary(split, scores=scores)


def _label_names(run: Run) -> list[str] | None:
    file = run.path / "model" / "config.json"
    names: dict[str, str] = (read_json(file).get("id2label") if file.is_file() else None) or {}
    return [names[key] for key in sorted(names, key=int)] or None


@dataclass(frozen=True)
class EvaluationTable:
    """Evaluations by run, seed and plain baseline: rows of (their name, scores), a score for each set or None."""

    names: Sequence[str]
    metrics: Sequence[str]
    """The metric of each evaluation."""
    rows: Sequence[tuple[str, Sequence[Score | None]]]
    best: Sequence[float | None]
    """The best score of each column; None if there is one run alone."""
    drawings: Sequence[Drawing]


def evaluation_table(runs: Sequence[Run]) -> EvaluationTable | None:
    """Put the evaluations of runs side by side; None where nothing was evaluated."""
    cells = {_place(run, name): each for run in runs for name, each in run.evaluations.items()}
    models = list(dict.fromkeys(model for model, _ in cells))[:ROWS]
    names = list(dict.fromkeys(name for _, name in cells))[:COLUMNS]
    if not names:
        return None
    scores: dict[str, dict[str, Score]] = {name: {} for name in names}
    best: list[float | None] = []
    metrics: list[str] = []
    for name, column in scores.items():
        evaluated = {model: cells[model, name] for model in models if (model, name) in cells}
        column |= {model: each.score for model, each in evaluated.items() if each.score}
        metrics.append(next((each.metric for each in evaluated.values()), ""))
        first = min if lower_is_better(metrics[-1]) else max
        best.append(first((each.value for each in column.values()), default=None) if len(models) > 1 else None)
    drawings: list[Drawing] = []
    if len(names) * len(models) > 1 and len(names) <= 12 and len(models) <= 8:
        points = not any(map(lower_is_better, metrics))
        drawings.append(charts.bars("evaluations", scores, note="With 95 % intervals over rows.", points=points))
    rows = [(model, [column.get(model) for column in scores.values()]) for model in models]
    return EvaluationTable(names, metrics, rows, best, drawings)


_MODEL = re.compile(r"(?:(.*?)-)?((?:seed|baseline)-\d+(?:-checkpoint-\d+)?|checkpoint-\d+)$")


def _place(run: Run, name: str) -> tuple[str, str]:
    """Return the model of an evaluation and what it was scored on: one seed, or a plain baseline, is a row."""
    match = _MODEL.match(name)
    if match is None:
        return run.name, name
    words = (
        match[2].replace("baseline-", f"{PLAIN}, seed ").replace("seed-", "seed ").replace("-checkpoint-", ", step ")
    )
    return f"{run.name}, {words.replace('checkpoint-', 'step ')}", match[1] or "validation"
