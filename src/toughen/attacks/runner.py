"""Run an attack on a model, show its progress, and keep its results on disk so that it can resume."""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from .._version import __version__
from ..internal.atomic import write_json, write_text
from ..runs.progress import format_duration
from ..tasks.spec import Task
from .summary import AttackSummary
from .target import Attack, Outcome, Target

Line = dict[str, Any]


class Journal:
    """Rows by their index. They are appended to `<file>.part` as they are found, and the whole file is written at last.

    Both begin from nothing where `key` (settings, data, weights) is another than the file's.
    """

    def __init__(self, file: Path | None, key: str) -> None:
        self.file, self.key = file, key
        self.part = None if file is None else file.with_name(f"{file.name}.part")
        self.rows: dict[int, Line] = {}
        self._open: TextIO | None = None
        if self.part is not None and self.part.is_file():
            self._read(self.part)

    def _read(self, part: Path) -> None:
        """Take up whole lines; what a killed process left half written ends them."""
        whole = 0
        with part.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    row: Line = json.loads(line)
                except ValueError:
                    break
                if not line.endswith(b"\n") or (number == 0 and row.get("key") != self.key):
                    break
                whole += len(line)
                if number:
                    self.rows[int(row["index"])] = row
        os.truncate(part, whole)

    def missing(self, total: int) -> list[int]:
        return [index for index in range(total) if index not in self.rows]

    def add(self, rows: Sequence[Line]) -> None:
        """Keep rows, for good: they are on the disk when this returns."""
        self.rows.update((int(row["index"]), row) for row in rows)
        if self.part is None or not rows:
            return
        if self._open is None:
            self.part.parent.mkdir(parents=True, exist_ok=True)
            self._open = self.part.open("a", encoding="utf-8")
            if self._open.tell() == 0:
                self._write([{"key": self.key}])
        self._write(rows)

    def _write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        assert self._open is not None
        self._open.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        self._open.flush()
        os.fsync(self._open.fileno())

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def finish(self) -> list[Line]:
        """All rows in order, now in the file itself."""
        self.close()
        rows = [self.rows[index] for index in sorted(self.rows)]
        if self.file is not None and self.part is not None:
            write_text(self.file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            self.part.unlink(missing_ok=True)
        return rows


def read_rows(file: Path) -> list[Line]:
    """The rows of an attack that was finished before."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def digest(*facts: Any) -> str:
    """A short name for everything a result depends on."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def weights_fingerprint(folder: Path | None) -> list[Any]:
    """What tells one training of a model folder from another, without reading the weights."""
    if folder is None:
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin", ".json"))
    return [(path.name, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files]


QUIET_SECONDS = 10.0


def say(text: str, verbose: bool = True) -> None:
    """One line for the person."""
    if verbose:
        with suppress(BrokenPipeError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


class Progress:
    """Counts examples. `speak=False` says nothing."""

    def __init__(self, title: str, total: int, done: int = 0, verbose: bool = True) -> None:
        self.title, self.total, self.done, self.verbose = title, total, done, verbose
        self._first = done
        self._began = self._last = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        if self.verbose and self._first:
            say(f"{self.title}: goes on after {self._first} of {self.total}")
        if self.verbose and sys.stderr.isatty():
            self._open()
        return self

    def _open(self) -> None:
        with suppress(ImportError):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
            self._bar = Bar(*columns, TimeRemainingColumn(), transient=True, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, completed=self.done)

    def advance(self, count: int) -> None:
        self.done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif self.verbose and time.perf_counter() - self._last > QUIET_SECONDS:
            self._last = time.perf_counter()
            say(f"{self.title}: {self.done}/{self.total} · ETA {self._left()}")

    def _left(self) -> str:
        since = time.perf_counter() - self._began
        return format_duration((self.total - self.done) * since / max(1, self.done - self._first))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


@dataclass(frozen=True)
class AttackResult:
    """What became of a model under an attack."""

    name: str
    """Of its files: attacks/<name>.json."""
    summary: AttackSummary
    task: Task
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome], repr=False)
    """Point -> what came of every row there."""
    texts: str = field(default="", repr=False)
    """What tells these rows from others, where points are of them and not of sets."""

    @property
    def score(self) -> float:
        """After-attack accuracy; of curves and groups the lowest score."""
        if (attacked := self.summary.attacked) is not None:
            return attacked.accuracy.value if attacked.accuracy else math.nan
        lines = [self.summary.curve] if self.summary.curve else self.summary.groups or ()
        return min((point.score.value for line in lines for point in line.points), default=math.nan)


def run_attack(
    attack: Attack,
    target: Target,
    *,
    home: Path | None = None,
    label: str = "",
    model: Path | None = None,
    where: str = "",
    progress: bool = False,
) -> AttackResult:
    """Run an attack, or what is missing of it, and write attacks/<name>.json and its rows under `home`.

    An attack that is finished under the same settings, rows and weights is read again and not repeated.
    """
    attack.check(target.task)
    name = "-".join(part for part in (attack.name, where, label) if part)
    victim = target.victim
    facts = (__version__, attack.name, attack.settings, target.task.name, victim.half, victim.text_tokenizer.max_length)
    texts = [(victim.key(row), str(label)) for row, label in zip(target.rows, target.labels, strict=True)]
    key = digest(facts, texts, weights_fingerprint(model), attack.cache_key(target))
    folder = None if home is None else home / "attacks"
    file = None if folder is None else folder / (f"{name}.jsonl" if attack.examples else f"{name}.rows.jsonl")
    before = _before(folder, name, file, key)
    if before is not None and file is not None:
        rows, seconds = read_rows(file), float(before["seconds"])
    else:
        stale = None if folder is None else folder / f"{name}.json"
        rows, seconds = _rows(attack, target, Journal(file, key), stale, progress)
    scores = attack.summarize(target, rows)
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
        settings=dict(attack.settings),
        notes=list(scores.notes),
        task=target.task.name,
        split=target.split,
        model="" if model is None else str(model),
        seed=int(attack.settings.get("seed", 0)),
        seconds=round(seconds, 3),
        key=key,
        toughen=__version__,
    )
    if folder is not None:
        write_json(folder / f"{name}.json", summary.to_dict())
    asked = "" if attack.kind == "set" else digest([text for text, _ in texts])
    return AttackResult(name, summary, target.task, scores.outcomes, asked)


def _before(folder: Path | None, name: str, file: Path | None, key: str) -> dict[str, Any] | None:
    if folder is None or file is None or not file.is_file():
        return None
    try:
        summary: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary if summary.get("key") == key else None


def _rows(
    attack: Attack, target: Target, journal: Journal, stale: Path | None, verbose: bool
) -> tuple[list[dict[str, Any]], float]:
    began, total = time.perf_counter(), attack.num_items(target)
    missing = journal.missing(total)
    try:
        with Progress(attack.name, total, total - len(missing), verbose) as bar:
            for part in attack.run_items(target, missing) if missing else ():
                journal.add(part)
                bar.advance(len(part))
    finally:
        journal.close()
    if stale is not None:  # killed before the new summary is written, an old one must not speak for the new rows
        stale.unlink(missing_ok=True)
    return journal.finish(), time.perf_counter() - began
