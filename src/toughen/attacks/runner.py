"""Run an attack on a model, show its progress, and keep its results on disk so that it can resume."""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..internal.atomic import write_json, write_text
from ..runs.progress import format_duration
from ..tasks.spec import DataError, Task
from .base import Attack, Outcome, Record
from .summary import AttackSummary

if TYPE_CHECKING:
    from .target import Target


def _lines(records: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


class Journal:
    """Records by their index, appended to `<file>.part` as they come; `finish` writes the file, `close` drops the part.

    `key` is a digest of settings, data and weights; a part that was written under another key starts again.
    """

    def __init__(self, file: Path | None, key: str) -> None:
        self.file, self.key = file, key
        self.part = None if file is None else file.with_name(f"{file.name}.part")
        self.records: dict[int, Record] = {}
        if self.part is not None and self.part.is_file():
            self._read(self.part)

    def _read(self, part: Path) -> None:
        """Read complete lines, and cut off the line that a killed process left incomplete."""
        size = 0
        with part.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    record: Record = json.loads(line)
                except ValueError:
                    break
                if not line.endswith(b"\n") or (number == 0 and record.get("key") != self.key):
                    break
                size += len(line)
                if number:
                    self.records[int(record["index"])] = record
        os.truncate(part, size)

    def missing(self, total: int) -> list[int]:
        return [index for index in range(total) if index not in self.records]

    def add(self, records: Sequence[Record]) -> None:
        """Keep records; they are on the disk when this returns."""
        self.records.update((int(record["index"]), record) for record in records)
        if self.part is None or not records:
            return
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with self.part.open("a", encoding="utf-8") as file:
            file.write(("" if file.tell() else _lines([{"key": self.key}])) + _lines(records))
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> list[Record]:
        """Write the file, and return all records in order."""
        records = [self.records[index] for index in sorted(self.records)]
        if self.file is not None:
            write_text(self.file, _lines(records))
        return records

    def close(self) -> None:
        """Remove the part: everything that is made of the records is on the disk."""
        if self.part is not None:
            self.part.unlink(missing_ok=True)


def read_records(file: Path) -> list[Record]:
    """Read the records of a finished attack."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def digest(*facts: Any) -> str:
    """Return a short name for everything a result depends on."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_stamp(file: Path) -> tuple[int, int]:
    """Return size and time of a file: they tell its versions apart without reading it."""
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


def weights_fingerprint(folder: Path | None) -> list[Any]:
    """Return what tells one training of a model folder from another, without reading the weights."""
    files = [] if folder is None else sorted(folder.iterdir())
    return [(file.name, *file_stamp(file)) for file in files if file.suffix in (".safetensors", ".bin", ".json")]


QUIET_SECONDS = 10.0  # between two plain lines


def say(text: str, verbose: bool = True) -> None:
    """Write one line for the user."""
    if verbose:
        with suppress(BrokenPipeError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def track(
    parts: Iterator[list[Record]], title: str, total: int, done: int, verbose: bool = True
) -> Iterator[list[Record]]:
    """Yield the parts of an attack, and show how many items are done: by a bar, or by lines without a terminal."""
    first, began = done, time.perf_counter()
    last = began
    say(f"{title}: resumes after {done} of {total}", verbose and done > 0)
    bar: Any = None
    with suppress(ImportError):
        if verbose and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
            bar = Progress(*columns, TimeRemainingColumn(), transient=True, console=Console(stderr=True))
            bar.add_task(title, total=total, completed=done)
            bar.start()
    try:
        for part in parts:
            yield part
            done += len(part)
            now = time.perf_counter()
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)
            elif verbose and now - last > QUIET_SECONDS:
                last = now
                left = (total - done) * (now - began) / max(1, done - first)
                say(f"{title}: {done}/{total} · ETA {format_duration(left)}")
    finally:
        if bar is not None:
            bar.stop()


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack on a model.

    Args:
        summary: What the file of the attack holds.
        task: The task.

    Examples:
        >>> found.attacks[0].summary.kind
        'noise'
    """

    name: str
    """Of its files: attacks/<name>.json."""
    summary: AttackSummary
    task: Task
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome], repr=False)
    """Point -> the outcome of every row there."""
    texts: str = field(default="", repr=False)
    """A digest of the rows, if the points are of these rows and not of other sets."""

    @property
    def score(self) -> float:
        """After-attack accuracy; of curves and groups the lowest score."""
        if (attacked := self.summary.attacked) is not None:
            return attacked.accuracy.value if attacked.accuracy else math.nan
        lines = [self.summary.curve] if self.summary.curve else self.summary.groups or ()
        return min((point.score.value for line in lines for point in line.points), default=math.nan)


def check_weights(attack: Attack, target: "Target") -> None:
    """Refuse an attack on the weights of a function, which has none."""
    if attack.white_box and not target.has_weights:
        raise DataError(
            f"attack {attack.name!r} needs the weights of a model, and a function has none; give a model folder."
        )


def run_attack(
    attack: Attack,
    target: "Target",
    *,
    home: Path | None = None,
    label: str = "",
    model: Path | None = None,
    where: str = "",
    progress: bool = False,
) -> AttackResult:
    """Run an attack, or the missing part of it, and write attacks/<name>.json and its records under `home`.

    A finished attack is read again, not repeated, if settings, rows and weights are the same.

    Args:
        attack: The attack.
        target: The model and its rows.
        home: The folder for attacks/; nothing is written without it.
        label: The name of the model beside others of the same folder.
        model: The folder of the model.
        where: The place of the rows, for the name of the files.
        progress: Show how far it is.

    Returns:
        The result.

    Raises:
        DataError: An attack that does not fit the task or the model.

    Examples:
        >>> (attack,) = toughen.evaluation.make_attacks("embedding", toughen.evaluation.AttackSettings(radii=(0.1,)))
        >>> result = toughen.evaluation.run_attack(attack, target)
        >>> result.summary.rows
        3
    """
    import numpy as np

    check_weights(attack, target)
    attack.check(target.task)
    name = "-".join(part for part in (attack.name, where, label) if part)
    victim = target.victim
    facts = (__version__, attack.name, attack.settings, target.task.name, *victim.settings)
    texts = [(victim.key(row), str(label)) for row, label in zip(target.rows, target.labels, strict=True)]
    # A model without a folder is known by its answers.
    weights = weights_fingerprint(model) if model else [np.round(one, 4).tolist() for one in target.logits]
    key = digest(facts, texts, weights, attack.cache_key(target))
    folder = None if home is None else home / "attacks"
    summary_file = folder and folder / f"{name}.json"
    file = folder and folder / f"{name}{attack.records_ending}"
    seconds, journal = _seconds_before(summary_file, file, key), None
    if seconds is not None and file is not None:
        records = read_records(file)
    else:
        began, journal, total = time.perf_counter(), Journal(file, key), attack.num_items(target)
        if missing := journal.missing(total):
            victim.refuse_random(target.rows)
            parts = attack.run_items(target, missing)
            for part in track(parts, attack.name, total, total - len(missing), progress):
                journal.add(part)
        if (
            summary_file is not None
        ):  # if killed before the new summary is written, the old one would be of other records
            summary_file.unlink(missing_ok=True)
        records, seconds = journal.finish(), time.perf_counter() - began
    scores = attack.summarize(target, records)
    metric, attacked = scores.metric or target.metric, scores.attacked
    if attacked and file is not None:
        attacked = replace(attacked, examples=f"attacks/{file.name}")
    summary = AttackSummary(
        kind=attack.kind,
        attack=attack.name,
        title=attack.title,
        metric=metric,
        rows=len(target.rows) if scores.rows is None else scores.rows,
        clean=target.score(target.answers(), metric),
        curve=scores.curve,
        attacked=attacked,
        groups=scores.groups,
        label=label,
        settings=attack.settings,
        notes=list(scores.notes),
        task=target.task.name,
        split=target.split,
        model="" if model is None else str(model),
        seed=int(attack.settings.get("seed", 0)),
        seconds=round(seconds, 3),
        key=key,
        toughen=__version__,
    )
    if summary_file is not None:
        write_json(summary_file, summary.to_dict())
    if journal is not None:
        journal.close()
    rows_key = "" if attack.kind == "set" else digest([text for text, _ in texts])
    return AttackResult(name, summary, target.task, scores.outcomes, rows_key)


def _seconds_before(summary_file: Path | None, file: Path | None, key: str) -> float | None:
    """Return the seconds that the finished attack took; None if there is none under this key."""
    with suppress(OSError, ValueError):
        if summary_file is not None and file is not None and file.is_file():
            summary: dict[str, Any] = json.loads(summary_file.read_text(encoding="utf-8"))
            return float(summary["seconds"]) if summary.get("key") == key else None
    return None
