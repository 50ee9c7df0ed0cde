"""What would help a model that was scanned: figures of the leaderboard's runs on the nearest task."""

import json
from importlib.resources import files
from typing import Any, Literal

from ..tasks.spec import Task

Score = Literal["pgd", "typos"]
# Kind and head of a task -> the task of the leaderboard that is nearest.
_NEAREST = {
    ("sentence", "classes"): "sst2",
    ("pair", "classes"): "mrpc",
    ("pair", "regression"): "stsb",
    ("tokens", "tokens"): "wnut17",
    ("choices", "choices"): "dream",
}
_NLI = {"entailment", "contradiction", "not_entailment"}


def advice(task: Task) -> list[str]:
    """Return sentences with measured figures for the nearest task, or one that says that nothing was measured."""
    measured = json.loads((files("toughen.evaluation") / "evidence.json").read_text(encoding="utf-8"))
    nearest = _nearest(task, {row["task"] for row in measured})
    rows = [row for row in measured if row["task"] == nearest]
    if not rows:
        return [f"No method was measured on a task like this one ({task.kind}, {task.head}); see docs/evidence.md."]
    first = rows[0]
    own = f"on {nearest}" if nearest == task.name else f"on {nearest}, the nearest task with runs,"
    about = f"Measured {own} with {first['seeds']} seeds, against plain training at equal epochs:"
    pgd = _sentence("pgd", f"under PGD at radius {first['radius']:g}", rows)
    typos = _sentence("typos", f"with typos in {100 * first['typos']:g} % of the words", rows)
    rest = "The other checks have no runs yet. Methods cost about 1 to 3 times plain training: docs/evidence.md."
    return [f"{about} {pgd}", _capital(typos), rest]


def _nearest(task: Task, known: set[str]) -> str:
    if task.name in known:
        return task.name
    if (task.kind, task.head) == ("pair", "classes") and _NLI & set(task.labels):
        return "rte"
    return _NEAREST.get((task.kind, task.head), "")


def _sentence(score: Score, where: str, rows: list[dict[str, Any]]) -> str:
    """Return the best method of every model under a score, if one is above plain beyond noise."""
    best = [(row["model"], row["better"][score][0]) for row in rows if row["better"][score]]
    if not best:
        return f"{where} no method is above plain beyond noise."
    gains = [
        f"{each['method']} on {model} {each['points']:+.1f} points [{each['low']:+.1f}, {each['high']:+.1f}], "
        f"{each['clean']:+.1f} clean"
        for model, each in best
    ]
    others = [row["model"] for row in rows if not row["better"][score]]
    none = f"; on {', '.join(others)} none beyond noise" if others else ""
    return f"{where}: {'; '.join(gains)}{none}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
