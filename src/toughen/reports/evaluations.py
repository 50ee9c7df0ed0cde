"""The evaluations of runs: scores with intervals, slices, confusion and reliability."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from . import charts
from .comparison import LOWER
from .drawing import Drawing
from .folder import Predictions, Run, amounts, finite, read_json
from .formatting import number

_MANY = 30  # classes: a larger confusion matrix cannot be read


def reliability_of(run: Run) -> list[Drawing]:
    """Accuracy over confidence of the best seed, beside the plain baseline's."""
    arms: dict[str, Any] = {}
    for arm, name in (("method", run.method), ("baseline", "plain baseline")):
        told = told_by(run, arm)
        if told and told.get("calibration"):
            arms[f"{name}: calibration error {told['calibration']['ece']:.3f}"] = told["calibration"]["bins"]
    if not arms:
        return []
    note = "On the dotted line a model knows how sure it may be; larger marks are more rows."
    return [charts.reliability("reliability", arms, note=note)]


def confusion_of(run: Run) -> list[Drawing]:
    told = told_by(run, "method")
    table: Mapping[str, Any] | None = told.get("confusion") if told else None
    if told is None or table is None or len(table["labels"]) > _MANY:
        return []
    return [charts.confusion(f"confusion, {told['name']}", table["labels"], table["counts"])]


def told_by(run: Run, arm: str) -> dict[str, Any] | None:
    """From the best seed's predictions; for the method else from the first evaluation that has any of it."""
    best = run.best(arm)
    predictions = run.predictions(int(best["seed"]), arm=arm) if best is not None else None
    told = _from_predictions(predictions, _label_names(run)) if predictions else None
    if told is None and arm == "method":
        told = next((e for e in run.evaluations.values() if e.get("confusion") or e.get("calibration")), None)
    return told


def _from_predictions(predictions: Predictions, names: list[str] | None) -> dict[str, Any] | None:
    """Confusion and reliability of answers; None for regression, which has neither."""
    told, found = predictions.labels, predictions.answers
    if told is None or amounts(told) or amounts(found):
        return None
    from ..tasks.calibration import calibration

    labels = names or sorted({*told, *found})
    place = {str(number): number for number in range(len(labels))} | {name: n for n, name in enumerate(labels)}
    if not all(each in place for each in (*told, *found)):
        return None
    counts = [[0] * len(labels) for _ in labels]
    for label, answer in zip(told, found, strict=True):
        counts[place[label]][place[answer]] += 1
    made: dict[str, Any] = {"name": "validation", "confusion": {"labels": labels, "counts": counts}}
    if predictions.probabilities and len(predictions.probabilities[0]) == len(labels):
        numbers = [place[label] for label in told]
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
    lower = {name for run in runs for name, told in run.evaluations.items() if told["metric"] in LOWER}
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
