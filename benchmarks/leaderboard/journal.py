"""Finished runs as JSON lines: appended at once, read again by the next call."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


class Journal:
    """The rows of a file, and what is added to them. One process writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = read([path]) if path.is_file() else []

    def add(self, row: Row) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cut = self.path.is_file() and self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if cut else "") + json.dumps(row, sort_keys=True, allow_nan=False) + "\n")
        self.rows.append(row)


def packed(rows: Sequence[Any]) -> str:
    """Return answers to rows as text of a few hundred letters."""
    return base64.b85encode(zlib.compress(json.dumps(rows).encode(), 9)).decode()


def unpacked(text: str) -> list[Any]:
    return json.loads(zlib.decompress(base64.b85decode(text)))


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of several files, each run once. A line that a killed process left unfinished is passed over."""
    found: dict[tuple[str, str | None], Row] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            found.setdefault((row["key"], row.get("made")), row)
    return list(found.values())
