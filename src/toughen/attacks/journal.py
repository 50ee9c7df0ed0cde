"""What an attack has done so far, on disk: a killed attack goes on where it was."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from ..internal.atomic import write_text

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


def finished(file: Path) -> list[Line]:
    """The rows of an attack that was finished before."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def key_of(*facts: Any) -> str:
    """A short name for everything a result depends on."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def weights_of(folder: Path | None) -> list[Any]:
    """What tells one training of a model folder from another, without reading the weights."""
    if folder is None:
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin", ".json"))
    return [(path.name, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files]
