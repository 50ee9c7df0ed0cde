"""What would help a model that was scanned: figures of the leaderboard's runs on the nearest task."""

import json
from importlib.resources import files
from typing import Any

from ..tasks.spec import Task

# Scores of the leaderboard, and where they were measured; the first two are given in any case.
_WHERE = {
    "pgd": "under PGD at radius {radius:g}",
    "typos": "with typos in {share:.0%} of the words",
    "misspellings": "with misspellings in {share:.0%} of the words",
    "obfuscation": "with {share:.0%} of the words obfuscated",
    "characters": "under the search over characters",
}
_ALWAYS = ("pgd", "typos")
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
    own = f"on {nearest}" if nearest == task.name else f"on {nearest}, the nearest task with runs,"
    about = (
        f"Measured {own} against plain training at equal epochs, of methods that lose at most a point of clean score:"
    )
    sentences = [
        _sentence(score, rows) for score in _WHERE if score in _ALWAYS or any(_best(row, score) for row in rows)
    ]
    rest = "Methods cost about 1 to 4 times plain training: docs/evidence.md."
    return [f"{about} {sentences[0]}", *map(_capital, sentences[1:]), rest]


def _nearest(task: Task, known: set[str]) -> str:
    if task.name in known:
        return task.name
    if (task.kind, task.head) == ("pair", "classes") and _NLI & set(task.labels):
        return "rte"
    return _NEAREST.get((task.kind, task.head), "")


def _best(row: dict[str, Any], score: str) -> list[dict[str, Any]]:
    return row["better"].get(score, [])


def _sentence(score: str, rows: list[dict[str, Any]]) -> str:
    """Return the best method of every model under a score, if one is above plain beyond noise."""
    where = _WHERE[score].format(radius=rows[0]["radius"], share=rows[0]["shares"].get(score, 0.0))
    best = [(row["model"], _best(row, score)[0]) for row in rows if _best(row, score)]
    if not best:
        return f"{where} no method is above plain beyond noise."
    gains = [
        f"{each['method']} on {model} {each['points']:+.1f} points [{each['low']:+.1f}, {each['high']:+.1f}], "
        f"{each['clean']:+.1f} clean, {each['seeds']} seeds"
        for model, each in best
    ]
    others = [row["model"] for row in rows if not _best(row, score)]
    none = f"; on {', '.join(others)} none beyond noise" if others else ""
    return f"{where}: {'; '.join(gains)}{none}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
