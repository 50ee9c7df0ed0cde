"""Read files as raw rows: CSV, TSV, Excel, JSON, JSON lines, Parquet and CoNLL."""

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
from ..spec import DataError, Message, Option

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
TABLES = (".csv", ".tsv", ".txt")
CONLL = (".conll", ".bio", ".iob", ".iob2", ".testa", ".testb", ".train", ".dev", ".annotated")
PARALLEL = ".input0"  # of fairseq's and ParaGen's scripts: a column a file, train.input0, train.input1, train.label
ENDINGS = (".jsonl", ".json", ".tsv", ".csv", ".parquet", ".txt", ".xlsx", *CONLL, PARALLEL)
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*$')  # the first line of tables that Excel writes
ENTITY = re.compile(r"^(?:O|[BIESLU]-.+)$")

SKIP = Option("on_bad", " or give on_bad='skip'", otherwise=" or leave the row out")
Record = tuple[int, Any]
"""A line number (0: the format has no lines) and what is there."""


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
    """One row as it is in the file, and its location."""

    path: Path
    row: int
    line: int
    fields: dict[str, Any]
    problem: Message | None = None
    kind: str = ""
    """The problem in two words, for counts."""

    @property
    def location(self) -> str:
        """File, row and line, for an error message."""
        return f"{self.path}, row {self.row}" + (f" (line {self.line})" if self.line else "")

    def error(self, message: Message | None = None) -> DataError:
        """Return the error of a problem with this row, by default of the one that is known."""
        problem = message or self.problem or Message("cannot be used")
        return DataError(f"{self.location}: {problem.problem}", *problem.options)


def read_rows(
    path: Path,
    form: FileFormat,
    unpack: Callable[[Any], Iterable[Any]] | None = None,
    headerless: tuple[str, ...] = (),
    strict: bool = True,
) -> Iterator[Raw]:
    """Read the rows of a file by its ending.

    Args:
        path: The file.
        form: How it is written.
        unpack: Splits a record into rows.
        headerless: Names of columns for a table without a header.
        strict: Whether a row with more fields than the header has a problem.

    """
    check_file(path)
    ending, row = suffix(path), 0
    if is_conll(path, form):
        records = _read_conll(path, form)
    elif ending in TABLES:
        records = _read_table(path, form, headerless)
    elif ending in (".jsonl", ".ndjson"):
        records = _read_json_lines(path, form)
    elif ending == ".json":
        records = _read_json(path, form)
    elif ending in (".parquet", ".pq"):
        records = _read_parquet(path)
    elif ending == PARALLEL:
        records = _read_parallel(path, form)
    elif ending == ".xlsx":
        records = _read_excel(path)
    else:
        raise DataError(
            f"{path}: the ending {ending or '(none)'!r} is not known; use {', '.join(ENDINGS[:7])}, .conll."
        )
    for line, record in records:
        for fields in unpack(record) if unpack and not isinstance(record, _Broken) else (record,):
            row += 1
            if not isinstance(fields, dict):
                message = Message('is not an object; write rows as {"text": ..., "label": ...}', SKIP)
                yield Raw(path, row, line, {}, message, "not an object")
                continue
            raw = Raw(path, row, line, fields)
            if isinstance(fields, _Broken) and (strict or not fields.usable):
                raw = raw._replace(problem=fields.problem, kind=fields.kind)
            yield raw
    if not row:
        raise DataError(f"{path} has no rows; give a file with at least one row.")


def suffix(path: Path) -> str:
    """Return the ending that says the format, without `.gz`."""
    return (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()


def is_conll(path: Path, form: FileFormat) -> bool:
    """Return whether a file holds a word a line."""
    return suffix(path) in CONLL or (form.conll and suffix(path) in (".txt", ".tsv", ""))


def describe(path: Path, form: FileFormat) -> str:
    """Say how the file is read: encoding and delimiter, for the report."""
    ending = suffix(path)
    if ending in (".parquet", ".pq"):
        return f"{path.name}: Parquet"
    if ending == ".xlsx":
        return f"{path.name}: Excel, its first sheet"
    encoding = find_encoding(path, form).upper().replace("-SIG", " with a mark")
    if ending not in TABLES or is_conll(path, form):
        return f"{path.name}: {encoding}"
    delimiter, _, _ = _begin_table(path, form)
    quoted = "quoted" if _quoted(delimiter, form) else "quotes are plain characters"
    return f"{path.name}: {encoding}, split at {DELIMITERS.get(delimiter, repr(delimiter))}, {quoted}"


def check_file(path: Path) -> None:
    """Refuse what is not a readable, non-empty file."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file; give a file", Option("dir", ", or the folder as dir="))
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; give a file with at least one row.")


def open_bytes(path: Path) -> IO[bytes]:
    """Open the file's bytes, unzipped."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def find_encoding(path: Path, form: FileFormat) -> str:
    """Return the encoding asked for, or the one its first bytes announce, or UTF-8."""
    if form.encoding:
        try:
            codecs.lookup(form.encoding)
        except LookupError:
            raise DataError(f"{path}: encoding={form.encoding!r} is not known; give one such as cp1252.") from None
        return form.encoding
    try:
        with open_bytes(path) as file:
            start = file.read(4)
    except (OSError, EOFError) as problem:
        raise _unreadable(path, problem) from None
    return next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")


def read_lines(path: Path, form: FileFormat) -> Iterator[str]:
    """Decode lines with their ends. Only a line feed ends a line: text may hold every other break."""
    encoding = find_encoding(path, form)
    number = 1
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="\n") as text:
        try:
            while line := text.readline(form.max_line + 2):
                if len(line.removesuffix("\n")) > form.max_line:
                    raise DataError(
                        f"{path}, line {number}: longer than {form.max_line:,} characters, likely a broken file or an "
                        "unclosed quote; fix it",
                        Option("max_line", f" or give max_line={10 * form.max_line} if the text is real"),
                    )
                yield line
                number += 1
        except UnicodeError:
            raise _undecodable(path, encoding, number) from None
        except (OSError, EOFError) as problem:
            raise _unreadable(path, problem) from None


def _unreadable(path: Path, problem: Exception) -> DataError:
    return DataError(f"{path} cannot be read: {problem}; fetch or save it again.")


def _undecodable(path: Path, encoding: str, number: int) -> DataError:
    """Find the byte that is not of the encoding; wide ones have no lines of bytes."""
    if not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        with open_bytes(path) as file:
            content = file.read()
        try:
            content.decode(encoding)
        except UnicodeDecodeError as problem:
            before = content[: problem.start]
            line, position = before.count(b"\n") + 1, problem.start - before.rfind(b"\n")
            return DataError(
                f"{path}, line {line}: byte 0x{content[problem.start]:02x} at position {position} is not {encoding}; "
                "save the file as UTF-8",
                Option("encoding", ' or give encoding="cp1252" (or what it is written in)'),
            )
    return DataError(f"{path}, line {number}: is not {encoding}; save the file as UTF-8.")


def find_delimiter(path: Path, form: FileFormat, header: str) -> str:
    """Return the delimiter asked for, or by the file's ending, or the most frequent one in the header line."""
    if form.delimiter:
        if len(form.delimiter) > 1:
            raise DataError(
                f"{path}: delimiter={form.delimiter!r} has {len(form.delimiter)} characters; give one, such as ;."
            )
        return form.delimiter
    if suffix(path) == ".tsv":
        return "\t"
    unquoted = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=unquoted.count)


def _begin_table(path: Path, form: FileFormat) -> tuple[str, Iterator[str], int]:
    """Return the delimiter, the lines from the header on, and the number of lines before it: `sep=;` names one."""
    lines = read_lines(path, form)
    first = next(lines, "")
    if named := _SEPARATOR.match(first):
        return form.delimiter or named[1], lines, 1
    return find_delimiter(path, form, first), chain([first], lines), 0


def match_column(names: Iterable[str], wanted: str) -> str | None:
    """Return the name of a column as it is written; without case and outer blanks if there is no doubt."""
    names = list(names)
    if wanted in names:
        return wanted
    alike = [name for name in names if name.strip().casefold() == wanted.strip().casefold()]
    return alike[0] if len(alike) == 1 else None


def _quoted(delimiter: str, form: FileFormat) -> bool:
    return form.quoting if form.quoting is not None else delimiter != "\t"


class _Broken(dict[str, Any]):
    """A row that is not in the form of its file, such as one with more fields than the header."""

    def __init__(self, kind: str, problem: Message, fields: Iterable[tuple[str, Any]] = (), usable: bool = False):
        super().__init__(fields)
        self.kind, self.problem, self.usable = kind, problem, usable


def _read_table(path: Path, form: FileFormat, headerless: tuple[str, ...]) -> Iterator[Record]:
    delimiter, lines, before = _begin_table(path, form)
    quoted = _quoted(delimiter, form)
    # Without quotes lines are cut at the delimiter, so that an unbalanced quote cannot swallow rows.
    plain = (
        (number, line.rstrip("\r\n").split(delimiter)) for number, line in enumerate(lines, 1) if line.strip("\r\n")
    )
    records = _quoted_records(path, form, lines, delimiter) if quoted else plain
    # Programs for tables write rows of nothing but delimiters below the last one.
    records = ((before + number, record) for number, record in records if any(map(str.strip, record)))
    start, header = next(records, (0, [""]))
    if headerless and not {name.strip() for name in header} & set(headerless):
        # The first line is a row already: the names come from the task.
        records, header = chain([(start, header)], records), headerless
    header = [name.strip() for name in header]
    while header and not header[-1]:  # columns that a program for tables left behind
        header = header[:-1]
    if not header:  # blank lines alone, or nothing but a mark of the encoding
        raise DataError(f"{path} has no names of columns: its first line is blank; give a header and at least one row.")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}, line 1: the column {twice!r} is given twice; rename one.")
    for line, record in records:
        if len(record) > len(header) and not any(map(str.strip, record[len(header) :])):
            record = record[: len(header)]
        if len(record) == len(header):
            yield line, dict(zip(header, record, strict=True))
            continue
        differs = Option("quoting", f", or give quoting={not quoted} or delimiter= if the file differs")
        problem = Message(f"has {len(record)} fields where the header has {len(header)}; fix it", SKIP, differs)
        yield line, _Broken("ragged row", problem, zip(header, record, strict=False), len(record) > len(header))


def _quoted_records(
    path: Path, form: FileFormat, lines: Iterable[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    # The limit is the module's own and too low for a long text; raising it can only let more files through.
    csv.field_size_limit(max(csv.field_size_limit(), form.max_line))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        yield from ((reader.line_num, record) for record in reader if record)
    except csv.Error as problem:
        where = f"{path}, line {reader.line_num}"
        if "new-line character" in str(problem):
            raise DataError(f"{where}: lines end with a carriage return alone; save it with common ones.") from None
        raise DataError(
            f"{where}: {problem} - a quote is not closed or not doubled; fix it",
            Option("quoting", " or give quoting=False"),
        ) from None


def _read_json_lines(path: Path, form: FileFormat) -> Iterator[Record]:
    for number, line in enumerate(read_lines(path, form), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as problem:
                yield number, _Broken("not JSON", Message(f"is not JSON ({problem.msg}); fix the line", SKIP))


def _read_json(path: Path, form: FileFormat) -> Iterator[Record]:
    # A JSON document cannot be read in pieces; its line may be as long as the file.
    text = "".join(read_lines(path, FileFormat(encoding=form.encoding, max_line=1 << 40)))
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        raise DataError(
            f"{path}, line {problem.lineno}: is not JSON ({problem.msg}); one object a line is called .jsonl."
        ) from None
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else document
    if not isinstance(document, list) or not document:
        raise DataError(f"{path} holds no list of rows; write [{{...}}, {{...}}] or one object a line as .jsonl.")
    yield from ((0, record) for record in document)


def _read_parquet(path: Path) -> Iterator[Record]:
    arrow, parquet = require("pyarrow", "tasks"), require("pyarrow.parquet", "tasks")
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from ((0, fields) for fields in batch.to_pylist())
    except arrow.ArrowException as problem:
        raise DataError(f"{path} is not Parquet ({str(problem).splitlines()[0]}); save it again.") from None


def parallel_files(path: Path) -> dict[str, Path]:
    """Return column -> file of a set with a file for each column; any other file has no columns of its own."""
    columns = ("input0", "input1", "label") if suffix(path) == PARALLEL else ()
    return {column: file for column in columns if (file := path.with_suffix(f".{column}")).is_file()}


def _read_parallel(path: Path, form: FileFormat) -> Iterator[Record]:
    files = parallel_files(path)
    lines = [[line.rstrip("\r\n") for line in read_lines(file, form)] for file in files.values()]
    if len(set(map(len, lines))) > 1:
        shown = ", ".join(f"{file.name} {len(each):,}" for file, each in zip(files.values(), lines, strict=True))
        raise DataError(f"{path.parent}: the files of a set differ in their number of lines: {shown}; make them again.")
    for number, cells in enumerate(zip(*lines, strict=True), start=1):
        yield number, dict(zip(files, cells, strict=True))


def _read_excel(path: Path) -> Iterator[Record]:
    """Read the first sheet; its first row that is not blank has the names of the columns."""
    excel = require("openpyxl", "xlsx")
    try:
        book: Any = excel.load_workbook(path, read_only=True, data_only=True)
    except Exception as problem:  # each kind of broken file has an error of its own, none of them documented
        raise DataError(f"{path} is not Excel ({problem}); save it again as .xlsx or .csv.") from None
    rows = enumerate(book.worksheets[0].iter_rows(values_only=True), start=1)
    filled = ((number, row) for number, row in rows if any(cell not in (None, "") for cell in row))
    _, header = next(filled, (0, ()))
    names = {at: str(name).strip() for at, name in enumerate(header) if name not in (None, "")}
    if len(set(names.values())) < len(names):
        raise DataError(f"{path}, row 1: two columns have one name; rename one.")
    for number, row in filled:
        yield number, {name: row[at] if at < len(row) else None for at, name in names.items()}


def _read_conll(path: Path, form: FileFormat) -> Iterator[Record]:
    """Read sentences as `tokens` and `tags`; IOB1 and IOBES tags become IOB2."""
    convert = tag_scheme(path, form) != "IOB2"
    for line, words, tags in _sentences(path, form):
        yield line, {"tokens": words, "tags": _to_iob2(tags) if convert else tags}


def tag_scheme(path: Path, form: FileFormat) -> str:
    """Return IOB1, IOBES or IOB2 as the file uses them; IOB2 also for tags that are left as they are."""
    begun = loose = 0
    closed = False
    for _, _, tags in _sentences(path, form):
        if not all(map(ENTITY.match, tags)):
            return "IOB2"
        closed = closed or any(tag.startswith(("S-", "E-", "L-", "U-")) for tag in tags)
        begun += sum(tag.startswith("B-") for tag in tags)
        pairs = zip(["O", *tags], tags, strict=False)
        loose += sum(tag.startswith("I-") and before.partition("-")[2] != tag[2:] for before, tag in pairs)
    if closed:
        return "IOBES"
    # A few loose I- in an IOB2 file are slips of its annotators, not another scheme.
    return "IOB1" if loose > begun else "IOB2"


def _to_iob2(tags: Sequence[str]) -> list[str]:
    """Return the same entities, each beginning with B-."""
    converted: list[str] = []
    before = ""  # the kind of the entity that an I- continues
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        inside = prefix in ("I", "E", "L") and kind == before
        converted.append(f"{'I' if inside else 'B'}-{kind}" if kind else tag)
        before = "" if prefix in ("E", "L", "S", "U") else kind
    return converted


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
    for number, line in enumerate(read_lines(path, form), start=1):
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
