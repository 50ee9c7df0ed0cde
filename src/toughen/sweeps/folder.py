"""The folder of a sweep: its definition, the settings tried so far, and a lock. Nothing in it is overwritten."""

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import IO, Any

import yaml

from ..internal.atomic import write_text
from ..reports.folder import read_lines
from .definition import Definition, Settings, differences, parse
from .errors import SweepError
from .loading import load_values
from .trials import append

DEFINITION, ROWS, LOCK = "sweep.yaml", "rows.jsonl", ".lock"


@dataclass
class Folder:
    """The folder of a sweep, locked by this process while it is open."""

    path: Path
    definition: Definition
    rows: list[Settings] = field(default_factory=list[Settings])
    _lock: IO[str] | None = None

    def add(self, settings: Settings) -> int:
        """Write new settings before they are tried; return their number, from 1."""
        append(self.path / ROWS, {"row": len(self.rows) + 1, "settings": settings})
        self.rows.append(settings)
        return len(self.rows)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep: a sweep.yaml written by hand has no lock beside it."""
    return (path / DEFINITION).is_file() and (path / LOCK).is_file()


def stored(path: Path) -> Definition:
    """Read the definition of the sweep in a folder."""
    return parse(load_values(path / DEFINITION))


def open_folder(path: Path, definition: Definition, resume: bool) -> Folder:
    """Make the folder of a new sweep, or open the folder of the same sweep."""
    if is_sweep(path):
        _check_same(path, definition, resume)
    elif path.exists() and (not path.is_dir() or any(each.name[:1] != "." for each in path.iterdir())):
        raise SweepError(f"{path} already exists and holds no sweep; choose another --output_dir.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(path)
        values = json.loads(json.dumps(definition.values, default=_plain))
        text = yaml.safe_dump(values, sort_keys=False)
        write_text(path / DEFINITION, f"# Go on with: toughen sweep {quote(str(path))} --resume\n{text}")
    except OSError as error:
        raise SweepError(f"{path} cannot be written: {error.strerror or error}.") from None
    rows = {int(line["row"]): line["settings"] for line in read_lines(path / ROWS) if {"row", "settings"} <= set(line)}
    if lost := set(range(1, len(rows) + 1)) - set(rows):
        lock.close()
        raise SweepError(f"{path / ROWS} has no row {min(lost)}; put it back, or choose another --output_dir.")
    return Folder(path, definition, [rows[number] for number in range(1, len(rows) + 1)], lock)


def _check_same(path: Path, definition: Definition, resume: bool) -> None:
    if changed := differences(stored(path), definition):
        raise SweepError(f"{path} holds another sweep: {', '.join(changed)} differ; choose another --output_dir.")
    if not resume:
        done = len(list(path.glob("trials/*/results.json")))
        raise SweepError(
            f"{path} already holds this sweep ({done} trials done); add --resume, or choose another --output_dir."
        )


def lock_folder(path: Path) -> IO[str]:
    """Lock the folder; the system releases it however this process ends."""
    file = (path / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        who = file.read().strip()
        file.close()
        raise SweepError(
            f"{path} is being run already, by {who or 'another process'}; wait for it or stop it."
        ) from None
    with suppress(OSError):
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
    return file


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
