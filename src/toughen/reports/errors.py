"""Where a run is wrong and how sure it is of it: confusion and reliability."""

from collections.abc import Mapping
from typing import Any, cast

from . import figures
from .drawing import Drawing
from .folder import Predictions, Run, amounts, read_json

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
    return [figures.reliability("reliability", arms, note=note)]


def confusion_of(run: Run) -> list[Drawing]:
    told = told_by(run, "method")
    table: Mapping[str, Any] | None = told.get("confusion") if told else None
    if told is None or table is None or len(table["labels"]) > _MANY:
        return []
    return [figures.confusion(f"confusion, {told['name']}", table["labels"], table["counts"])]


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
