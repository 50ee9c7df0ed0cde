"""The evaluations of runs: scores with intervals, slices, confusion and reliability."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from . import charts
from .comparison import LOWER
from .drawing import Drawing
from .folder import Predictions, Run, finite, is_numeric, read_json
from .formatting import number

_MANY = 30  # classes: a larger confusion matrix cannot be read


def reliability_charts(run: Run) -> list[Drawing]:
    """Accuracy over confidence of the best seed, beside the plain baseline's."""
    arms: dict[str, Any] = {}
    for arm, name in (("method", run.method), ("baseline", "plain baseline")):
        summary = error_summary(run, arm)
        if summary and summary.get("calibration"):
            arms[f"{name}: calibration error {summary['calibration']['ece']:.3f}"] = summary["calibration"]["bins"]
    if not arms:
        return []
    note = "On the dotted line a model knows how sure it may be; larger marks are more rows."
    return [charts.reliability("reliability", arms, note=note)]


def confusion_charts(run: Run) -> list[Drawing]:
    summary = error_summary(run, "method")
    table: Mapping[str, Any] | None = summary.get("confusion") if summary else None
    if summary is None or table is None or len(table["labels"]) > _MANY:
        return []
    return [charts.confusion(f"confusion, {summary['name']}", table["labels"], table["counts"])]


def error_summary(run: Run, arm: str) -> dict[str, Any] | None:
    """From the best seed's predictions; for the method else from the first evaluation that has any of it."""
    best = run.best(arm)
    predictions = run.predictions(int(best["seed"]), arm=arm) if best is not None else None
    summary = _from_predictions(predictions, _label_names(run)) if predictions else None
    if summary is None and arm == "method":
        summary = next((e for e in run.evaluations.values() if e.get("confusion") or e.get("calibration")), None)
    return summary


def _from_predictions(predictions: Predictions, names: list[str] | None) -> dict[str, Any] | None:
    """Confusion and reliability of answers; None for regression, which has neither."""
    y_true, y_pred = predictions.labels, predictions.answers
    if y_true is None or is_numeric(y_true) or is_numeric(y_pred):
        return None
    from ..tasks.calibration import calibration

    labels = names or sorted({*y_true, *y_pred})
    index = {str(number): number for number in range(len(labels))} | {name: n for n, name in enumerate(labels)}
    if not all(each in index for each in (*y_true, *y_pred)):
        return None
    counts = [[0] * len(labels) for _ in labels]
    for label, answer in zip(y_true, y_pred, strict=True):
        counts[index[label]][index[answer]] += 1
    made: dict[str, Any] = {"name": "validation", "confusion": {"labels": labels, "counts": counts}}
    if predictions.probabilities and len(predictions.probabilities[0]) == len(labels):
        numbers = [index[label] for label in y_true]
        made["calibration"] = calibration(predictions.probabilities, numbers)
    return made


def _label_names(run: Run) -> list[str] | None:
    file = run.path / "model" / "config.json"
    if not file.is_file():
        return None
    names = cast("dict[str, str]", read_json(file).get("id2label") or {})
    return [names[key] for key in sorted(names, key=int)] or None


COLUMNS, ROWS = 24, 300


def evaluation_table(runs: Sequence[Run]) -> dict[str, Any] | None:
    """None where nothing was evaluated."""
    names = list(dict.fromkeys(name for run in runs for name in run.evaluations))[:COLUMNS]
    if not names:
        return None
    scores: dict[str, dict[str, tuple[float, float, float]]] = {name: {} for name in names}
    for run in runs:
        for name in names:
            score = _score(run.evaluations[name]) if name in run.evaluations else None
            if score is not None:
                scores[name][run.name] = score
    lower = {name for run in runs for name, summary in run.evaluations.items() if summary["metric"] in LOWER}
    best = {
        name: (min if name in lower else max)((each[0] for each in found.values()), default=None)
        for name, found in scores.items()
    }
    rows: list[dict[str, Any]] = []
    for run in runs[:ROWS]:
        cells: list[dict[str, Any]] = []
        for name in names:
            found = scores[name].get(run.name)
            span = f"{found[1]:.3f} to {found[2]:.3f}" if found else ""
            top = found is not None and len(runs) > 1 and found[0] == best[name]
            cells.append({**number(found[0] if found else None), "interval": span, "best": top})
        rows.append({"name": run.name, "cells": cells})
    drawn: list[Drawing] = []
    if len(names) * len(runs) > 1 and len(names) <= 12 and len(runs) <= 8:
        drawn.append(charts.bars("evaluations", scores, note="With 95 % intervals over rows."))
    return {"names": names, "rows": rows, "drawings": drawn}


def _score(evaluation: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The selecting metric with its interval; None where it was not finite, which is no 0."""
    found: Mapping[str, Any] = evaluation["metrics"][evaluation["metric"]]
    value = finite(found.get("value"))
    if value is None:
        return None
    low, high = (value if found.get(key) is None else float(found[key]) for key in ("low", "high"))
    return value, low, high
