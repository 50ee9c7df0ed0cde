"""The evaluations of runs: scores with intervals, confusion and reliability."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..attacks.summary import Score
from . import charts
from .drawing import Drawing
from .folder import ARMS, PLAIN, Arm, ErrorSummary, Predictions, Run, is_numeric, read_json
from .formatting import LOWER

CLASSES = 30  # a larger confusion matrix cannot be read
COLUMNS, ROWS = 24, 300


def error_summaries(run: Run) -> dict[Arm, ErrorSummary]:
    """Summarize the best seed's predictions; for the method else the first evaluation that has any of it."""
    summaries: dict[Arm, ErrorSummary] = {}
    for arm in ARMS:
        best = run.best(arm)
        predictions = run.predictions(best.seed, arm=arm) if best else None
        if predictions and (summary := _from_predictions(predictions, _label_names(run))):
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
    summary = summaries.get("method")
    if summary and 0 < len(summary.labels) <= CLASSES:
        drawings.append(charts.confusion(f"confusion, {summary.name}", summary.labels, summary.counts))
    return drawings


def _from_predictions(predictions: Predictions, names: list[str] | None) -> ErrorSummary | None:
    """Return the confusion and calibration of answers; None for regression, which has neither."""
    y_true, y_pred = predictions.labels, predictions.answers
    if y_true is None or is_numeric(y_true) or is_numeric(y_pred):
        return None
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
        return ErrorSummary("validation", labels, counts, **calibration(predictions.probabilities, numbers))
    return ErrorSummary("validation", labels, counts)


def _label_names(run: Run) -> list[str] | None:
    file = run.path / "model" / "config.json"
    names: dict[str, str] = (read_json(file).get("id2label") if file.is_file() else None) or {}
    return [names[key] for key in sorted(names, key=int)] or None


@dataclass(frozen=True)
class EvaluationTable:
    """Evaluations by run: rows of (run, scores), a score for each name or None."""

    names: Sequence[str]
    metrics: Sequence[str]
    """The metric of each evaluation."""
    rows: Sequence[tuple[str, Sequence[Score | None]]]
    best: Sequence[float | None]
    """The best score of each column; None if there is one run alone."""
    drawings: Sequence[Drawing]


def evaluation_table(runs: Sequence[Run]) -> EvaluationTable | None:
    """Put the evaluations of runs side by side; None where nothing was evaluated."""
    names = list(dict.fromkeys(name for run in runs for name in run.evaluations))[:COLUMNS]
    if not names:
        return None
    scores: dict[str, dict[str, Score]] = {name: {} for name in names}
    best: list[float | None] = []
    metrics: list[str] = []
    for name, column in scores.items():
        evaluated = {run.name: run.evaluations[name] for run in runs if name in run.evaluations}
        column |= {run: each.score for run, each in evaluated.items() if each.score}
        metrics.append(next((each.metric for each in evaluated.values()), ""))
        first = min if metrics[-1] in LOWER else max
        best.append(first((each.value for each in column.values()), default=None) if len(runs) > 1 else None)
    drawings: list[Drawing] = []
    if len(names) * len(runs) > 1 and len(names) <= 12 and len(runs) <= 8:
        drawings.append(
            charts.bars("evaluations", scores, note="With 95 % intervals over rows.", points=not {*metrics} & {*LOWER})
        )
    rows = [(run.name, [column.get(run.name) for column in scores.values()]) for run in runs[:ROWS]]
    return EvaluationTable(names, metrics, rows, best, drawings)
