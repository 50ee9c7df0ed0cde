"""The headline numbers of a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from .cells import p_words
from .comparison import Comparison
from .errors import told_by
from .folder import Run

MOST = 8


def cards(
    tables: Sequence[Comparison], runs: Sequence[Run], robustness: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    """The score, the gain and the cost of the best; for a single run what attacks and calibration say."""
    found = [card for table in tables for card in _scores(table)]
    if len(runs) == 1:
        found += [*_attacked(robustness), *_calibrated(runs[0])]
    return found[:MOST]


def _scores(table: Comparison) -> list[dict[str, str]]:
    best = table.best
    spread = "one seed" if best.summary.sd is None else f"± {best.summary.sd:.4f} sd, {best.summary.count} seeds"
    made = [
        {"name": f"{best.task}: {table.metric}", "value": f"{best.summary.mean:.4f}", "note": f"{best.name}, {spread}"}
    ]
    others = [row for row in table.rows if row.over_seeds is not None]
    if others:
        top, reference = table.best_of(others), table.rows[0].name
        test = top.over_seeds
        if test is not None:
            value = f"{test.difference:+.4f}" if test.count else "-"
            made.append({"name": f"{top.name} against {reference}", "value": value, "note": p_words(test.p, test.why)})
        if seconds := top.ratio.get("seconds_per_step"):
            made.append({"name": "cost of a step", "value": f"{seconds:.2f}x", "note": f"{top.name} to {reference}"})
    return made


def _attacked(robustness: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Each attack: what is left of the score, beside plain fine-tuning where that was attacked too."""
    made: dict[str, dict[str, str]] = {}
    for row in robustness["rows"] if robustness else ():
        where = f" {row['where']}" if row["where"] else ""
        if row["model"] != "plain":
            made[row["attack"]] = {
                "name": f"under {row['attack']}{where}",
                "value": row["end"]["text"],
                "note": f"{row['metric']}, clean {row['clean']['text']}",
            }
    for row in robustness["rows"] if robustness else ():
        if row["model"] == "plain" and row["attack"] in made:
            made[row["attack"]]["note"] += f", plain {row['end']['text']}"
    return list(made.values())[:3]


def _calibrated(run: Run) -> list[dict[str, str]]:
    told, plain = told_by(run, "method"), told_by(run, "baseline")
    if not told or not told.get("calibration"):
        return []
    beside = f"plain {plain['calibration']['ece']:.3f}; " if plain and plain.get("calibration") else ""
    return [{"name": "calibration error", "value": f"{told['calibration']['ece']:.3f}", "note": f"{beside}0 is best"}]
