"""CSV, TSV, JSON, JSON lines and Parquet as rows."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

from .._extra import extra
from ..spec import DataError, Option
from .conll import read_conll
from .lines import DELIMITER_NAMES, Format, Raw, check_file, find_delimiter, find_encoding, lines, suffix

TABLES = (".csv", ".tsv", ".txt")
CONLL = (".conll", ".bio", ".iob", ".iob2", ".testa", ".testb", ".train", ".dev", ".annotated")
ENDINGS = (".jsonl", ".json", ".tsv", ".csv", ".parquet", ".txt", *CONLL)

Unpack = Callable[[Any], Iterable[dict[str, Any]]]


def read_rows(
    path: Path, form: Format, unpack: Unpack | None = None, headerless: tuple[str, ...] = (), strict: bool = True
) -> Iterator[Raw]:
    """The rows of a file by its ending. `strict=False` lets a row have more fields than the header."""
    check_file(path)
    ending = suffix(path)
    if is_conll(path, form):
        yield from read_conll(path, form)
    elif ending in TABLES:
        yield from _read_table(path, form, headerless, strict)
    elif ending in (".jsonl", ".ndjson"):
        yield from _read_json_lines(path, form, unpack)
    elif ending == ".json":
        yield from _read_json(path, form, unpack)
    elif ending in (".parquet", ".pq"):
        yield from _read_parquet(path)
    else:
        raise DataError(
            f"{path}: the ending {ending or '(none)'!r} is not known; use {', '.join(ENDINGS[:6])}, .conll."
        )


def is_conll(path: Path, form: Format) -> bool:
    """Whether a file holds a word a line."""
    return suffix(path) in CONLL or (form.conll and suffix(path) in (".txt", ".tsv", ""))


def describe(path: Path, form: Format) -> str:
    """How the file was read: encoding and delimiter, for the report."""
    ending = suffix(path)
    if ending in (".parquet", ".pq"):
        return f"{path.name}: Parquet"
    encoding = find_encoding(path, form).upper().replace("-SIG", " with a mark")
    if ending not in TABLES or is_conll(path, form):
        return f"{path.name}: {encoding}"
    delimiter = find_delimiter(path, form, next(lines(path, form), ""))
    quoted = "quoted" if _quoted(delimiter, form) else "quotes are plain characters"
    return f"{path.name}: {encoding}, split at {DELIMITER_NAMES.get(delimiter, repr(delimiter))}, {quoted}"


def _quoted(delimiter: str, form: Format) -> bool:
    return form.quoting if form.quoting is not None else delimiter != "\t"


def _read_table(path: Path, form: Format, headerless: tuple[str, ...], strict: bool) -> Iterator[Raw]:
    source = lines(path, form)
    first = next(source, "")
    delimiter = find_delimiter(path, form, first)
    if _quoted(delimiter, form):
        records = _quoted_records(path, form, first, source, delimiter)
    else:
        records = _plain_records(first, source, delimiter)
    _, header = next(records, (0, []))
    header = [name.strip() for name in header]
    if not any(header):  # blank lines alone, or nothing but a mark of the encoding
        raise DataError(f"{path} has no names of columns: its first line is blank; give a header and at least one row.")
    if headerless and not set(header) & set(headerless):
        # The first line is a row already: the names come from the task.
        records = chain([(1, first.rstrip("\r\n").split(delimiter))], records)
        header = list(headerless)
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}, line 1: the column {twice!r} is there twice; rename one.")
    row = 0
    quoting = not _quoted(delimiter, form)
    differs = Option("quoting", f", or give quoting={quoting} or delimiter= if the file differs")
    for line, record in records:
        row += 1
        fields = dict(zip(header, record, strict=False))
        if len(record) < len(header) or (strict and len(record) > len(header)):
            ragged = f"has {len(record)} fields where the header has {len(header)}; mend the row"
            yield Raw(row, line, fields, ragged, (differs,))
        else:
            yield Raw(row, line, fields)
    if not row:
        raise DataError(f"{path} has a header and no rows; give a file with at least one row.")


def _plain_records(first: str, source: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Lines cut at the delimiter: quotes mean nothing, so an unbalanced one cannot swallow rows."""
    yield 1, first.rstrip("\r\n").split(delimiter)
    for number, line in enumerate(source, start=2):
        if bare := line.rstrip("\r\n"):
            yield number, bare.split(delimiter)


def _quoted_records(
    path: Path, form: Format, first: str, source: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    def again() -> Iterator[str]:
        yield first
        yield from source

    # The limit is the module's own and too low for a long text; raising it can only let more files through.
    csv.field_size_limit(max(csv.field_size_limit(), form.max_line))
    reader = csv.reader(again(), delimiter=delimiter, strict=True)
    while True:
        try:
            record = next(reader, None)
        except csv.Error as problem:
            if "new-line character" in str(problem):
                raise DataError(
                    f"{path}, line {reader.line_num}: lines end with a carriage return alone; save it with common ones."
                ) from None
            raise DataError(
                f"{path}, line {reader.line_num}: {problem} - a quote is not closed or not doubled; mend it",
                Option("quoting", " or give quoting=False"),
            ) from None
        if record is None:
            return
        if record:
            yield reader.line_num, record


def _read_json_lines(path: Path, form: Format, unpack: Unpack | None) -> Iterator[Raw]:
    row = 0
    for number, line in enumerate(lines(path, form), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as problem:
            raise DataError(f"{path}, line {number}: is not JSON ({problem.msg}); mend or remove the line.") from None
        for fields in unpack(record) if unpack else (record,):
            row += 1
            yield Raw(row, number, _object(fields, path, row))
    if not row:
        raise DataError(f"{path} has no rows; give a file with at least one row.")


def _read_json(path: Path, form: Format, unpack: Unpack | None) -> Iterator[Raw]:
    # A JSON document cannot be read in pieces; its line may be as long as the file.
    whole = "".join(lines(path, Format(encoding=form.encoding, max_line=1 << 40)))
    try:
        document = json.loads(whole)
    except json.JSONDecodeError as problem:
        raise DataError(
            f"{path}, line {problem.lineno}: is not JSON ({problem.msg}); one object a line is called .jsonl."
        ) from None
    if isinstance(document, dict):
        lists = [value for value in cast(dict[str, Any], document).values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else document
    if not isinstance(document, list) or not document:
        raise DataError(f"{path} holds no list of rows; write [{{...}}, {{...}}] or one object a line as .jsonl.")
    row = 0
    for record in cast(list[Any], document):
        for fields in unpack(record) if unpack else (record,):
            row += 1
            yield Raw(row, 0, _object(fields, path, row))


def _read_parquet(path: Path) -> Iterator[Raw]:
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            row = 0
            for batch in file.iter_batches(batch_size=1024):
                for fields in batch.to_pylist():
                    row += 1
                    yield Raw(row, 0, fields)
    except arrow.ArrowException as problem:
        raise DataError(f"{path} is not Parquet ({str(problem).splitlines()[0]}); save it again.") from None
    if not row:
        raise DataError(f"{path} has no rows; give a file with at least one row.")


def _object(fields: Any, path: Path, row: int) -> dict[str, Any]:
    if not isinstance(fields, dict):
        raise DataError(f'{path}, row {row}: is not an object; write rows as {{"text": ..., "label": ...}}.')
    return cast(dict[str, Any], fields)
