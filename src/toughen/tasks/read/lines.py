"""Text files as decoded lines, with the place of the first bad byte."""

import codecs
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from ..spec import DataError, Option

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = ",;\t|"
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Format:
    """How a file is written; None means: find out."""

    delimiter: str | None = None
    encoding: str | None = None
    quoting: bool | None = None
    label_separator: str | None = None
    tag_column: int = -1
    max_line: int = 1_000_000
    conll: bool = False
    """Read text and TSV files as CoNLL: a word and its tag on a line."""


class Raw(NamedTuple):
    """One row as it stands in the file, and where it stands (line 0: the format has none)."""

    row: int
    line: int
    fields: dict[str, Any]
    problem: str = ""
    options: tuple[Option, ...] = ()
    """Options that may help against the problem."""


def place(path: Path, raw: Raw) -> str:
    """Where a row is, for an error message."""
    return f"{path}, row {raw.row} (line {raw.line})" if raw.line else f"{path}, row {raw.row}"


def suffix(path: Path) -> str:
    """The ending that says the format, without `.gz`."""
    return (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()


def check_file(path: Path) -> None:
    """Refuse what is not a readable, non-empty file."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file; give a file", Option("dir", ", or the folder as dir="))
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; give a file with at least one row.")


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unzipped."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def find_encoding(path: Path, form: Format) -> str:
    """The encoding asked for, or the one its first bytes announce, or UTF-8."""
    if form.encoding:
        try:
            codecs.lookup(form.encoding)
        except LookupError:
            raise DataError(f"{path}: encoding={form.encoding!r} is not known; give one such as cp1252.") from None
        return form.encoding
    with open_bytes(path) as file:
        head = _guarded(file.read, path, 4)
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def lines(path: Path, form: Format) -> Iterator[str]:
    """Decoded lines with their ends. Only a line feed ends a line: text may hold every other break."""
    encoding = find_encoding(path, form)
    if encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        yield from _wide_lines(path, encoding, form)
        return
    with open_bytes(path) as file:
        number = 0
        while line := _guarded(file.readline, path, form.max_line + 1):
            number += 1
            _check_length(len(line), path, number, form)
            try:
                yield line.decode(encoding if number == 1 else encoding.replace("-sig", ""))
            except UnicodeDecodeError as problem:
                byte = line[problem.start]
                raise DataError(
                    f"{path}, line {number}: byte 0x{byte:02x} at position {problem.start + 1} is not {encoding}; "
                    "save the file as UTF-8",
                    Option("encoding", ' or give encoding="cp1252" (or what it is written in)'),
                ) from None


def _wide_lines(path: Path, encoding: str, form: Format) -> Iterator[str]:
    with open_bytes(path) as file:
        reader = codecs.getreader(encoding)(file)
        number = 0
        buffer = ""
        while True:
            try:
                chunk = reader.read(1 << 16)
            except UnicodeError:
                raise DataError(f"{path}, line {number + 1}: is not {encoding}; save the file as UTF-8.") from None
            buffer += chunk
            *whole, buffer = buffer.split("\n")
            for line in whole:
                number += 1
                _check_length(len(line), path, number, form)
                yield line + "\n"
            _check_length(len(buffer), path, number + 1, form)
            if not chunk:
                break
        if buffer:
            yield buffer


def find_delimiter(path: Path, form: Format, header: str) -> str:
    """The delimiter asked for, or by the file's ending, or the most frequent one in the header line."""
    if form.delimiter:
        if len(form.delimiter) > 1:
            raise DataError(
                f"{path}: delimiter={form.delimiter!r} has {len(form.delimiter)} characters; give one, such as ;."
            )
        return form.delimiter
    if suffix(path) == ".tsv":
        return "\t"
    bare = "".join(header.split('"')[::2])
    best = max(_DELIMITERS, key=bare.count)
    return best if bare.count(best) else ","


def _check_length(length: int, path: Path, number: int, form: Format) -> None:
    if length > form.max_line:
        raise DataError(
            f"{path}, line {number}: longer than {form.max_line:,} bytes, likely a broken file or an unclosed quote; "
            "mend it",
            Option("max_line", f" or give max_line={10 * form.max_line} if the text is real"),
        )


def _guarded(read: Any, path: Path, size: int) -> bytes:
    """Read bytes; a file that is named .gz and is not gzip is an error in one line."""
    try:
        return read(size)
    except (OSError, EOFError) as problem:
        raise DataError(f"{path} cannot be read: {problem}; fetch or save it again.") from None
