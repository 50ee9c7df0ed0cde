"""Every evaluation of every run: values with their intervals, and bars where there are several."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures
from .cells import number
from .comparison import LOWER
from .drawing import Drawing
from .folder import Run, finite

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
        drawn.append(figures.bars("evaluations", scores, note="With 95 % intervals over rows."))
    return {"names": names, "rows": rows, "drawings": drawn}


def _score(evaluation: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The selecting metric with its interval; None where it was not finite, which is no 0."""
    found: Mapping[str, Any] = evaluation["metrics"][evaluation["metric"]]
    value = finite(found.get("value"))
    if value is None:
        return None
    low, high = (value if found.get(key) is None else float(found[key]) for key in ("low", "high"))
    return value, low, high
