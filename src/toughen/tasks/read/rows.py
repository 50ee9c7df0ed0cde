"""Turn raw rows into rows of a task: columns by their names, labels as numbers."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from ..spec import DataError, Message, Option, Task
from .files import SKIP, FileFormat, Raw, match_column, read_rows

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_NO_LABEL = ("", "nan", "na", "n/a", "null", "none")


class BadRow(Exception):
    """A row that cannot be used: what is wrong with it, how to fix it, and options that help."""

    def __init__(self, kind: str, remedy: str, *options: Option):
        """Keep the kind for the report's counts and the message for the error."""
        self.kind, self.message = kind, Message(f"{kind}; {remedy}", *options)
        super().__init__(self.message)


def is_missing(value: object) -> bool:
    """Return whether a cell says that there is no label, as R (NA), pandas (nan) and Python (None) write it."""
    if isinstance(value, str):
        return value.strip().lower() in _NO_LABEL
    return value is None or (isinstance(value, float) and math.isnan(value))


def label_reader(task: Task, form: FileFormat, multi_hot: bool | None = None) -> Callable[[Any], Any]:
    """Return a function from a label as written to a number, a list of numbers, or None when there is no label.

    `multi_hot` says whether lists are a 0 or 1 for each label, or class numbers; None: each row for itself.
    """
    if task.head == "regression":
        return _number
    known: dict[Any, int] = {}
    words = not all(_is_number(label) for label in task.labels)
    for number, label in enumerate(task.labels):
        if task.positional and words:
            known[number] = known[str(number)] = number
        if not words:
            known[int(label)] = number
        known.setdefault(label.lower(), number)
        known[label] = number
    known.update({word: known[label] for word, label in task.label_aliases.items() if label})
    withheld = [-1, "-1", *(word for word, label in task.label_aliases.items() if not label)]

    def one(value: object) -> int | None:
        if isinstance(value, list | dict):
            multilabel = Option("head", ": give head='multilabel'", otherwise=", as the model gives one")
            raise BadRow("label is a list", f"{value!r} should be one label", multilabel)
        if is_missing(value) and not isinstance(value, str):  # as a word it may be a class
            return None
        number = next((known[key] for key in _spellings(value, words) if key in known), None)
        if number is None and value not in withheld and not is_missing(value):
            shown = ", ".join(task.labels[:8]) + (", ..." if len(task.labels) > 8 else "")
            names = Option("labels", ", give labels=[...]")
            raise BadRow("label outside the set", f"{value!r} is none of {shown}: fix it", names, SKIP)
        return number

    def several(value: object) -> list[int] | None:
        if value is None:
            return None
        if isinstance(value, str):
            value = [part.strip() for part in value.split(form.label_separator or "|") if part.strip()]
        values: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
        if task.head == "multilabel" and is_multi_hot(values, task):
            if multi_hot or multi_hot is None:
                return [number for number, on in enumerate(values) if on]
            if len(set(values)) < len(values):
                remedy = f"write a 0 or 1 for each of the {len(task.labels)} labels in every row, or names everywhere"
                raise BadRow("a class number is given twice", f"{value!r} is no list of classes: {remedy}")
        numbers = [one(part) for part in values]
        return None if None in numbers else cast("list[int]", numbers)

    return several if task.head in ("multilabel", "tokens") else one


def _spellings(value: object, words: bool) -> Iterator[Any]:
    """Yield the forms in which a label may be known, the closest first."""
    if not isinstance(value, bool):
        yield value
    # A file may hold both 1 and "1", and pandas writes 1 as 1.0.
    yield from (text := str(value).strip(), text.lower())
    if isinstance(value, bool):
        yield int(value)
    elif not words:
        yield as_number(text)


def _is_number(label: str) -> bool:
    """Return whether a label is a whole number as such, and not a name of digits: 007."""
    return re.fullmatch(r"-?(0|[1-9]\d*)", label) is not None


def as_number(value: Any) -> float | None:
    """Return the number that a cell holds, also as text and with a decimal comma; None if it holds none."""
    if isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) and not is_ambiguous(value):
        value = value.replace(",", ".")
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def is_ambiguous(value: object) -> bool:
    """Return whether a comma may separate decimals as well as thousands: 1,234."""
    return isinstance(value, str) and _THOUSANDS.fullmatch(value.strip()) is not None


def is_multi_hot(values: Sequence[Any], task: Task) -> bool:
    """Return whether a list may be a 0 or 1 for each label; of two labels [0, 1] may be the class numbers as well."""
    return len(values) == len(task.labels) and all(part in (0, 1) and not isinstance(part, str) for part in values)


def _number(value: object) -> float | None:
    number = as_number(value)
    if is_missing(value) or number != number:
        return None
    if number is None:
        share = isinstance(value, str) and as_number(value.strip().removesuffix("%")) is not None
        remedy = "write shares without the sign, in all rows" if share else "fix it"
        remedy = "write a point for decimals and nothing between thousands" if is_ambiguous(value) else remedy
        options = () if share else (Option("head", " or give head='classes'"),)
        raise BadRow("label is not a number", f"{value!r} should be a number: {remedy}", *options)
    if math.isinf(number):
        raise BadRow("label is infinite", "give a finite number")
    return number


def unlabelled(task: Task, row: Mapping[str, Any]) -> Any:
    """Return what the Hub writes where a test set keeps its labels to itself."""
    if task.head == "tokens":
        return [-1] * len(row["tokens"])
    return {"regression": -1.0, "multilabel": []}.get(task.head, -1)


OnBad = Literal["error", "skip"]
_NUMBERED = re.compile(r"^(choices?|endings?|options?|answers?)[_ ]?([0-9]+|[A-H])$")


@dataclass(frozen=True)
class FileSource:
    """How to turn one file into rows of a task."""

    path: Path
    task: Task
    split: str
    form: FileFormat = field(default_factory=FileFormat)
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column of the task -> column of the file, as the user named them."""
    on_bad: OnBad = "error"
    public: bool = False
    """A published set, whose known flaws (short rows, rows without a label) are left out and counted."""
    multi_hot: bool | None = None
    """Whether lists of labels are a 0 or 1 for each label; None: each row for itself."""

    def read(self) -> Iterator[Raw]:
        """Read the raw rows; a published set may have rows with more fields than the header."""
        return read_rows(self.path, self.form, self.task.unpack, self.task.headerless, strict=not self.public)

    def rows(self, skipped: Counter[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of the file; a bad one is an error that names its location, or is skipped and counted."""
        encode: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        error: DataError | None = None
        bad_rows, total = Counter[str](), 0
        for raw in self.read():
            total += 1
            try:
                if raw.problem:
                    raise BadRow(raw.kind, raw.problem)
                encode = encode or encoder(self.task, self, raw.fields)
                row = encode(raw.fields)
                if error is None:
                    yield row
            except BadRow as bad:
                tolerated = self.public and bad.kind in ("ragged row", "no label")
                if self.on_bad == "error" and not tolerated:
                    error = error or raw.error(raw.problem or bad.message)
                    bad_rows[bad.kind] += 1
                if skipped is not None:
                    skipped[bad.kind] += 1
        if error is not None:  # the first bad row in full, and all of them counted
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in bad_rows.most_common())
            many = bad_rows.total() > 1
            more = f". Of {total:,} rows {bad_rows.total():,} cannot be used: {kinds}"
            raise DataError(error.message.problem, *error.message.options, *([Option("", more, more)] if many else []))


def all_multi_hot(sources: Iterable[FileSource]) -> bool:
    """Return whether every list of labels is a 0 or 1 for each label; one that is not makes all class numbers."""
    multi_hot = False
    for source in sources:
        name: str | None = None
        for raw in source.read():
            name = name or find_column(source.task, "label", source, raw.fields, needed=False)
            value = raw.fields.get(name) if name else None
            if is_missing(value) or value == []:
                continue  # without a label in either form
            multi_hot = isinstance(value, list) and is_multi_hot(value, source.task)
            if not multi_hot:
                return False
    return multi_hot


def encoder(
    task: Task, source: FileSource, sample: Mapping[str, Any], optional: bool | None = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function from raw fields to a row of the task, once the file's columns are known.

    `optional` says whether a row may do without a label; by default those of a test set that keeps them to itself.
    """
    columns = {column: find_column(task, column, source, sample) for column in task.columns}
    label_name = find_column(task, "label", source, sample, needed=source.split != "test")
    kept = [name for name in task.extra_columns if name in sample]
    read_label = label_reader(task, source.form, source.multi_hot)
    numbered = numbered_columns(sample) if task.head == "choices" and columns["choices"] is None else []
    if optional is None:
        published = source.public and task.has_unlabelled_rows and label_name is not None
        optional = source.split == "test" and not published
    labelled: list[bool] = []

    def encode(fields: dict[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column, name in columns.items():
            if column == "choices":
                value = [fields.get(key) for key in numbered] if name is None else fields.get(name)
                row[column] = _choices(value, len(task.labels))
            elif column == "tokens":
                row[column] = _tokens(fields.get(cast(str, name)))
            else:
                row[column] = "" if name is None else text_of(fields.get(name), name)
        value = None if label_name is None else fields.get(label_name)
        if task.head == "choices":
            value = _choice_label(value, row["choices"], written=label_name == "answer")
        label = read_label(value)
        if not labelled:
            labelled.append(label is not None)  # the first row decides for all
        if labelled[0] != (label is not None) and optional and not source.public:
            # A test set may keep its labels to itself; half of them would be scored as if they were real.
            kind = "has a label and rows before it have none" if label is not None else "has none and others have"
            raise BadRow(f"label in some rows only: this one {kind}", "label all rows of a test file or none")
        if label is None:
            if not optional:
                holds = f"holds {value!r} there, which says that there is none"
                state = "is empty there" if value in (None, "", []) else holds
                raise BadRow("no label", f"the column {label_name!r} {state}: fill it in", SKIP)
            label = unlabelled(task, row)
        if task.head == "tokens" and len(label) != len(row["tokens"]):
            raise BadRow(
                "tags and tokens differ in number", f"{len(row['tokens'])} tokens have {len(label)} tags: fix it"
            )
        row["label"] = label
        for name in kept:
            row[name] = str(fields.get(name, ""))
        return row

    return encode


def find_column(
    task: Task, column: str, source: FileSource, sample: Mapping[str, Any], needed: bool = True
) -> str | None:
    """Return the file's name for a column of the task."""
    asked = source.named.get(column)
    names = (asked,) if asked else (column, *task.synonyms.get(column, ()))
    name = next((found for name in names if (found := match_column(sample, name)) is not None), None)
    if not asked and task.head == "choices":
        needed = needed and column != "question" and not (column == "choices" and numbered_columns(sample))
    if name is None and (needed or (asked and column != "label")):
        option = "label_column" if column == "label" else "text_column"
        raise DataError(
            f"{source.path}, row 1: there is no column {asked or column!r}; it has {', '.join(map(repr, sample))}; "
            f"name the right one with {option}=."
        )
    return name


def text_of(value: object, name: str) -> str:
    """Return a text as it is in a cell; a list of words is joined."""
    if isinstance(value, str):
        return _unicode(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadRow("text is missing", f"the column {name!r} is empty (NaN) there: fill it in", SKIP)
    parts = value if isinstance(value, list) else [value]
    odd = next((part for part in parts if isinstance(part, (dict, list))), None)
    if odd is not None:
        kind = "an object" if isinstance(odd, dict) else "a list in a list"
        raise BadRow(f"text is {kind}", f"the column {name!r} should hold a text: name another with text_column=")
    return _unicode(" ".join(map(str, parts)))


def _unicode(text: str) -> str:
    """Return the text, refused with half of a pair of surrogates: JSON may hold one where an emoji was cut through."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"{text[error.start]!a} at position {error.start}"
            raise BadRow("text is not Unicode", f"{half} is half a character: fix it", SKIP) from None
    return text


def _tokens(value: object) -> list[str]:
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value:
        raise BadRow("no tokens", "write the words as a list of strings, at least one")
    return [_unicode(str(word)) for word in value]


def _choices(value: object, count: int) -> list[str]:
    if not isinstance(value, list) or any(part is None for part in value):
        raise BadRow("choices are missing", "write them as a list of strings")
    choices = [_unicode(str(part)) for part in value]
    if len(choices) != count:
        raise BadRow("wrong number of choices", f"there are {len(choices)} where the task has {count}: fix the row")
    return choices


def _choice_label(value: object, choices: list[str], written: bool) -> Any:
    """Return the number of the right choice, also when the answer is written out, as `written` says it is."""
    if not isinstance(value, str) or not value.strip():
        return value
    if value.strip().removeprefix("-").isdecimal():
        # Digits may be the answer itself (DREAM: 40 of 40, 50 and 100) or its number.
        number = not written and int(value) < len(choices)
        return value if number or value not in choices else choices.index(value)
    if value not in choices:
        raise BadRow("answer is none of the choices", f"{value!r} should be one of them or its number")
    return choices.index(value)


def numbered_columns(sample: Mapping[str, Any]) -> list[str]:
    """Return choice0, choice1, ... or ending0, ... in order, when the choices are in columns of their own."""
    matches = {name: match for name in sample if (match := _NUMBERED.match(name))}
    return sorted(matches, key=lambda name: (matches[name][2].isalpha(), matches[name][2].zfill(4)))
