"""The parts of a report's page: one run, and the table of evaluations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from . import figures
from .curves import eval_curves, last, loss_parts, robust_figures
from .folder import Predictions, Run

_MANY = 40  # classes: a larger confusion matrix cannot be read


@dataclass(frozen=True)
class Section:
    """One run: values for the template, and drawings."""

    values: dict[str, Any]
    figures: list[str]


def run_section(run: Run) -> Section:
    """Everything the folder of a run holds, as far as it is there."""
    results = run.results
    best = max(run.seeds(), key=lambda seed: float(seed["metrics"].get(run.metric, float("-inf"))), default=None)
    metrics = list(dict.fromkeys(name for seed in run.seeds() for name in seed["metrics"]))
    sizes = ", ".join(f"{name} {rows}" for name, rows in (results.get("data") or {}).items() if isinstance(rows, int))
    line = [str(results["task"]), str(results.get("model", "")), _method(run)]
    line += [f"head {results['head']}"] if results.get("head") else []
    line += [f"rows: {sizes}"] if sizes else []
    machine = {"versions": results.get("versions") or {}, "hardware": results.get("hardware") or {}}
    values = {
        "name": run.name,
        "metric": run.metric,
        "line": " · ".join(line),
        "metrics": metrics,
        "seeds": [_seed(run, seed, arm, metrics) for arm in ("method", "baseline") for seed in run.seeds(arm)],
        "robust": [(key, f"{number:.4g}", meaning) for key, (number, meaning) in last(run).items()],
        "slices": _slices(run),
        "notes": list(results.get("notes") or ()),
        "config": run.config,
        "versions": json.dumps(machine, indent=1, ensure_ascii=False),
    }
    return Section(values, [*_curves(run), *_errors(run, best)])


def _method(run: Run) -> str:
    method: Mapping[str, Any] = run.results["method"]
    settings = ", ".join(f"{key}={value}" for key, value in (method.get("settings") or {}).items())
    return f"{method['name']}({settings})"


def _seed(run: Run, seed: Mapping[str, Any], arm: str, metrics: Sequence[str]) -> dict[str, Any]:
    name = run.method if arm == "method" else "plain baseline"
    memory, epoch, seconds = seed.get("peak_memory_mb"), seed.get("best_epoch"), seed.get("train_seconds")
    found: Mapping[str, float] = seed["metrics"]
    return {
        "name": f"{name}, seed {seed['seed']}",
        "scores": [f"{found[metric]:.4f}" if metric in found else "-" for metric in metrics],
        "epoch": "-" if epoch is None else f"{epoch:g}",
        "seconds": "-" if seconds is None else f"{seconds:.1f}",
        "memory": "-" if memory is None else f"{memory:.0f}",
    }


def _curves(run: Run) -> list[str]:
    drawn: list[str] = []
    if parts := loss_parts(run):
        drawn.append(figures.lines("loss and its parts", parts, dashed=("loss, plain baseline",)))
    if curve := eval_curves(run, run.metric):
        drawn.append(figures.lines(f"{run.metric} while training", curve, y=run.metric, dashed=("plain baseline",)))
    return [*drawn, *(figures.lines(title, lines) for title, lines in robust_figures(run).items())]


def _errors(run: Run, best: Mapping[str, Any] | None) -> list[str]:
    """Confusion and reliability: from the best seed's predictions, else from the first evaluation that has them."""
    told = None
    if best is not None and (predictions := run.predictions(int(best["seed"]))):
        told = _from_predictions(predictions, _label_names(run))
    told = told or next((e for e in run.evaluations.values() if e.get("confusion") or e.get("calibration")), None)
    if told is None:
        return []
    drawn: list[str] = []
    if table := told.get("confusion"):
        drawn.append(figures.confusion(f"confusion, {told['name']}", table["labels"], table["counts"]))
    if calibration := told.get("calibration"):
        title = f"reliability, {told['name']}: calibration error {calibration['ece']:.3f}"
        drawn.append(figures.reliability(title, {run.method: calibration["bins"]}))
    return drawn


def _from_predictions(predictions: Predictions, names: list[str] | None) -> dict[str, Any] | None:
    """Confusion and reliability of answers; None for regression, which has neither."""
    told, found = predictions.labels, predictions.answers
    if told is None or any("." in label for label in told):
        return None
    from ..tasks import calibration_error, reliability

    labels = names or sorted({*told, *found})
    place = {str(number): number for number in range(len(labels))} | {name: n for n, name in enumerate(labels)}
    if len(labels) > _MANY or not all(each in place for each in (*told, *found)):
        return None
    counts = [[0] * len(labels) for _ in labels]
    for label, answer in zip(told, found, strict=True):
        counts[place[label]][place[answer]] += 1
    made: dict[str, Any] = {"name": "validation", "confusion": {"labels": labels, "counts": counts}}
    if predictions.probabilities and len(predictions.probabilities[0]) == len(labels):
        numbers = [place[label] for label in told]
        bins = [each._asdict() for each in reliability(predictions.probabilities, numbers)]
        made["calibration"] = {"ece": calibration_error(predictions.probabilities, numbers), "bins": bins}
    return made


def _label_names(run: Run) -> list[str] | None:
    file = run.path / "model" / "config.json"
    if not file.is_file():
        return None
    names = cast("dict[str, str]", json.loads(file.read_text(encoding="utf-8")).get("id2label") or {})
    return [names[key] for key in sorted(names, key=int)] or None


def _slices(run: Run) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for name, evaluation in run.evaluations.items():
        metric = evaluation.get("metric", run.metric)
        for kind, rows in (evaluation.get("slices") or {}).items():
            cells = [{"name": r["name"], "rows": r["rows"], "score": f"{r[metric]:.4f}"} for r in rows if metric in r]
            if len(cells) > 1:
                found.append((f"{name}, by {kind}", cells))
    return found


def evaluation_table(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Every evaluation of every run: value and interval, and bars where there are several."""
    from markupsafe import Markup

    names = list(dict.fromkeys(name for run in runs for name in run.evaluations))
    if not names:
        return None
    scores = {name: {r.name: _score(r.evaluations[name]) for r in runs if name in r.evaluations} for name in names}
    rows: list[dict[str, Any]] = []
    for run in runs:
        cells: list[dict[str, Any]] = []
        for name in names:
            found = scores[name].get(run.name)
            best = found is not None and len(runs) > 1 and found[0] == max(each[0] for each in scores[name].values())
            span = f"{found[1]:.3f} to {found[2]:.3f}" if found else ""
            cells.append({"value": f"{found[0]:.4f}" if found else "-", "interval": span, "best": best})
        rows.append({"name": run.name, "cells": cells})
    drawn = figures.bars("evaluations", scores) if len(names) * len(runs) > 1 and len(names) <= 12 else None
    return {"names": names, "rows": rows, "figure": Markup(drawn) if drawn else None}


def _score(evaluation: Mapping[str, Any]) -> tuple[float, float, float]:
    found: Mapping[str, Any] = evaluation["metrics"][evaluation["metric"]]
    value = float(found["value"] or 0.0)
    low, high = (value if found.get(key) is None else float(found[key]) for key in ("low", "high"))
    return value, low, high
