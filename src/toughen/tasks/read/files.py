"""Files as raw rows: CSV, TSV, JSON, JSON lines, Parquet and CoNLL."""

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from ...errors import require
from ..spec import DataError, Option

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = ",;\t|"
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class FileFormat:
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


def find_encoding(path: Path, form: FileFormat) -> str:
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


def lines(path: Path, form: FileFormat) -> Iterator[str]:
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


def _wide_lines(path: Path, encoding: str, form: FileFormat) -> Iterator[str]:
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="\n") as text:
        number = 1
        try:
            while line := text.readline(form.max_line + 2):
                _check_length(len(line.removesuffix("\n")), path, number, form)
                yield line
                number += 1
        except UnicodeError:
            raise DataError(f"{path}, line {number}: is not {encoding}; save the file as UTF-8.") from None


def find_delimiter(path: Path, form: FileFormat, header: str) -> str:
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


def _check_length(length: int, path: Path, number: int, form: FileFormat) -> None:
    if length > form.max_line:
        raise DataError(
            f"{path}, line {number}: longer than {form.max_line:,} bytes, likely a broken file or an unclosed quote; "
            "fix it",
            Option("max_line", f" or give max_line={10 * form.max_line} if the text is real"),
        )


def _guarded(read: Any, path: Path, size: int) -> bytes:
    """Read bytes; a file that is named .gz and is not gzip is an error in one line."""
    try:
        return read(size)
    except (OSError, EOFError) as problem:
        raise DataError(f"{path} cannot be read: {problem}; fetch or save it again.") from None


ENTITY = re.compile(r"^(?:O|[BIESLU]-.+)$")


def read_conll(path: Path, form: FileFormat) -> Iterator[Raw]:
    """Sentences as `tokens` and `tags`; IOB1 and IOBES tags are turned into IOB2."""
    tagged = scheme(path, form)
    row = 0
    for line, words, tags in _sentences(path, form):
        row += 1
        yield Raw(row, line, {"tokens": words, "tags": to_iob2(tags) if tagged != "IOB2" else tags})
    if not row:
        raise DataError(f"{path} has no sentences; write a word and its tag on each line.")


def scheme(path: Path, form: FileFormat) -> str:
    """IOB1, IOBES, IOB2 or plain tags, as the file uses them."""
    return _scheme(tags for _, _, tags in _sentences(path, form))


def to_iob2(tags: Sequence[str]) -> list[str]:
    """The same entities, each beginning with B-."""
    out: list[str] = []
    before = "O"
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if prefix in ("S", "U"):
            prefix = "B"
        elif prefix in ("E", "L"):
            prefix = "I"
        if prefix == "I" and before.partition("-")[2] != kind:
            prefix = "B"
        out.append(f"{prefix}-{kind}" if kind else tag)
        # After the end of an entity the next I- starts a new one.
        before = "O" if tag.startswith(("S-", "U-", "E-", "L-")) else tag
    return out


def _scheme(sentences: Iterable[Sequence[str]]) -> str:
    begun = loose = 0
    entities, closed = True, False
    for tags in sentences:
        before = "O"
        for tag in tags:
            entities = entities and bool(ENTITY.match(tag))
            closed = closed or tag.startswith(("S-", "E-", "L-", "U-"))
            begun += tag.startswith("B-")
            loose += tag.startswith("I-") and before.partition("-")[2] != tag[2:]
            before = tag
    if not entities:
        return "IOB2"
    if closed:
        return "IOBES"
    # A few loose I- in an IOB2 file are slips of its annotators, not another scheme.
    return "IOB1" if loose > begun else "IOB2"


def _is_comment(line: str, cells: Sequence[str], width: int, tabs: bool) -> bool:
    """Whether a line before a sentence speaks of it, as `# sent_id = 3` does; `# #` is a word and its tag."""
    if not line.startswith("# ") or "\t" in line:
        return False
    return tabs or len(cells) != (width or 2) or cells[2:3] == ["="] or cells[1] in ("newdoc", "newpar")


def _sentences(path: Path, form: FileFormat) -> Iterator[tuple[int, list[str], list[str]]]:
    words: list[str] = []
    tags: list[str] = []
    width = start = 0
    tabs = False
    for number, line in enumerate(lines(path, form), start=1):
        bare = line.rstrip("\r\n")
        if not bare.strip() or bare.startswith("-DOCSTART-"):
            if words:
                yield start, words, tags
            words, tags = [], []
            continue
        cells = bare.split("\t") if "\t" in bare else bare.split()
        if not words and _is_comment(bare, cells, width, tabs):
            continue
        width, tabs = width or len(cells), tabs or "\t" in bare
        if len(cells) != width or width < 2:
            raise DataError(
                f"{path}, line {number}: has {len(cells)} columns where {max(width, 2)} are expected (word, ..., tag); "
                "fix the line or separate sentences by a blank line."
            )
        start = start if words else number
        words.append(cells[0])
        tags.append(cells[form.tag_column])
    if words:
        yield start, words, tags


TABLES = (".csv", ".tsv", ".txt")
CONLL = (".conll", ".bio", ".iob", ".iob2", ".testa", ".testb", ".train", ".dev", ".annotated")
ENDINGS = (".jsonl", ".json", ".tsv", ".csv", ".parquet", ".txt", *CONLL)

Unpack = Callable[[Any], Iterable[dict[str, Any]]]


def read_rows(
    path: Path, form: FileFormat, unpack: Unpack | None = None, headerless: tuple[str, ...] = (), strict: bool = True
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


def is_conll(path: Path, form: FileFormat) -> bool:
    """Whether a file holds a word a line."""
    return suffix(path) in CONLL or (form.conll and suffix(path) in (".txt", ".tsv", ""))


def describe(path: Path, form: FileFormat) -> str:
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


def _quoted(delimiter: str, form: FileFormat) -> bool:
    return form.quoting if form.quoting is not None else delimiter != "\t"


def _read_table(path: Path, form: FileFormat, headerless: tuple[str, ...], strict: bool) -> Iterator[Raw]:
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
            ragged = f"has {len(record)} fields where the header has {len(header)}; fix the row"
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
    path: Path, form: FileFormat, first: str, source: Iterator[str], delimiter: str
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
                f"{path}, line {reader.line_num}: {problem} - a quote is not closed or not doubled; fix it",
                Option("quoting", " or give quoting=False"),
            ) from None
        if record is None:
            return
        if record:
            yield reader.line_num, record


def _read_json_lines(path: Path, form: FileFormat, unpack: Unpack | None) -> Iterator[Raw]:
    row = 0
    for number, line in enumerate(lines(path, form), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as problem:
            raise DataError(f"{path}, line {number}: is not JSON ({problem.msg}); fix or remove the line.") from None
        for fields in unpack(record) if unpack else (record,):
            row += 1
            yield Raw(row, number, _object(fields, path, row))
    if not row:
        raise DataError(f"{path} has no rows; give a file with at least one row.")


def _read_json(path: Path, form: FileFormat, unpack: Unpack | None) -> Iterator[Raw]:
    # A JSON document cannot be read in pieces; its line may be as long as the file.
    whole = "".join(lines(path, FileFormat(encoding=form.encoding, max_line=1 << 40)))
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
    arrow, parquet = require("pyarrow", "tasks"), require("pyarrow.parquet", "tasks")
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
