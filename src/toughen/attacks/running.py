"""An attack on a model, kept on disk as it goes."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._version import __version__
from ..internal.atomic import write_json
from ..tasks.spec import Task
from .journal import Journal, finished, key_of, weights_of
from .progress import Progress
from .target import Attack, Outcome, Target


@dataclass(frozen=True)
class Attacked:
    """What became of a model under an attack."""

    name: str
    """Of its files: attacks/<name>.json."""
    summary: Mapping[str, Any]
    task: Task
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome], repr=False)
    """Point -> what came of every row there."""
    texts: str = field(default="", repr=False)
    """What tells these rows from others, where points are of them and not of sets."""

    @property
    def score(self) -> float:
        """After-attack accuracy; of curves and groups the lowest score."""
        told = self.summary
        if told["attacked"]:
            return float(told["attacked"]["accuracy"]["value"])
        lines = [told["curve"]["points"]] if told["curve"] else [group["points"] for group in told["groups"] or ()]
        return min((float(point["value"]) for points in lines for point in points), default=float("nan"))


def run_attack(
    attack: Attack,
    target: Target,
    *,
    home: Path | None = None,
    label: str = "",
    model: Path | None = None,
    where: str = "",
    progress: bool = False,
) -> Attacked:
    """Run an attack, or what is missing of it, and write attacks/<name>.json and its rows under `home`.

    An attack that is finished under the same settings, rows and weights is read again and not repeated.
    """
    attack.check(target.task)
    name = "-".join(part for part in (attack.name, where, label) if part)
    victim = target.victim
    facts = (__version__, attack.name, attack.settings, target.task.name, victim.half, victim.work.max_length)
    texts = [(victim.key(row), str(label)) for row, label in zip(target.rows, target.labels, strict=True)]
    key = key_of(facts, texts, weights_of(model), attack.facts(target))
    folder = None if home is None else home / "attacks"
    file = None if folder is None else folder / (f"{name}.jsonl" if attack.examples else f"{name}.rows.jsonl")
    before = _before(folder, name, file, key)
    if before is not None and file is not None:
        rows, seconds = finished(file), float(before["seconds"])
    else:
        stale = None if folder is None else folder / f"{name}.json"
        rows, seconds = _rows(attack, target, Journal(file, key), stale, progress)
    total = attack.sum_up(target, rows)
    summary = _summary(attack, target, label, model, seconds, key) | dict(total.fields)
    summary["notes"] = list(total.notes)
    if summary["attacked"] and file is not None:
        summary["attacked"] = {**summary["attacked"], "examples": f"attacks/{file.name}"}
    if folder is not None:
        write_json(folder / f"{name}.json", summary)
    asked = "" if attack.kind == "set" else key_of([text for text, _ in texts])
    return Attacked(name, summary, target.task, total.outcomes, asked)


def _before(folder: Path | None, name: str, file: Path | None, key: str) -> dict[str, Any] | None:
    if folder is None or file is None or not file.is_file():
        return None
    try:
        told: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told if told.get("key") == key else None


def _rows(
    attack: Attack, target: Target, journal: Journal, stale: Path | None, speak: bool
) -> tuple[list[dict[str, Any]], float]:
    began, total = time.perf_counter(), attack.pieces(target)
    missing = journal.missing(total)
    try:
        with Progress(attack.name, total, total - len(missing), speak) as bar:
            for part in attack.work(target, missing) if missing else ():
                journal.add(part)
                bar.advance(len(part))
    finally:
        journal.close()
    if stale is not None:  # killed before the new summary is written, an old one must not speak for the new rows
        stale.unlink(missing_ok=True)
    return journal.finish(), time.perf_counter() - began


def _summary(
    attack: Attack, target: Target, label: str, model: Path | None, seconds: float, key: str
) -> dict[str, Any]:
    """The fields that every attack has; those of its kind are laid over them."""
    metric = target.metric if attack.kind != "noise" else target.task.primary_metric
    return {
        "toughen": __version__,
        "kind": attack.kind,
        "attack": attack.name,
        "title": attack.title,
        "task": target.task.name,
        "split": target.split,
        "model": "" if model is None else str(model),
        "label": label,
        "rows": len(target.rows),
        "seed": int(attack.settings.get("seed", 0)),
        "metric": metric,
        "settings": dict(attack.settings),
        "seconds": round(seconds, 3),
        "clean": target.score(target.answers(), metric),
        "curve": None,
        "attacked": None,
        "groups": None,
        "notes": [],
        "key": key,
    }
