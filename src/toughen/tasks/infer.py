"""Infer a task from the user's own file: which columns are text, what the labels are, which head fits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from .catalog import ENTITY_METRICS
from .read.files import ENTITY, FileFormat, Raw, match_column, read_rows, suffix
from .read.rows import as_number, is_ambiguous, is_missing, numbered_columns
from .spec import DataError, Head, Option, Task

MOST_LABELS = 1000


_LABELS = ("label", "labels", "class", "target", "score", "tags", "ner_tags", "pos_tags", "gold_label", "answer")
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text", "text_pair"),
    ("text1", "text2"),
)
_SINGLE = ("text", "sentence", "review", "content", "tweet", "comment")
WORDS = ("tokens", "words")
_CHOICES = ("choices", "choice", "endings", "options")
_CONTEXTS = ("context", "ctx", "sent1", "dialogue", "article", "passage", "startphrase", "text")

_IN_CONFIG = "name the classes in config.json (id2label)"


@dataclass
class LabelScan:
    """The labels of a file: what they are and how they are written."""

    values: list[Any] = field(default_factory=list[Any])
    lists: bool = False
    numbers: bool = True

    @classmethod
    def of(cls, seen: Iterable[tuple[bool, Any]], lists: bool) -> "LabelScan":
        """Decide what different labels are, given with whether they are True or False, which Python takes for 1 and 0.

        NA, None and the like are missing labels among numbers and classes among words, as for the label reader.
        """
        seen = list(seen)
        truths = [value for is_truth, value in seen if is_truth]
        values = [value for is_truth, value in seen if not is_truth and not is_missing(value)]
        missing = [value for _, value in seen if is_missing(value) and as_number(value) is None]
        numbers = all(as_number(value) is not None for value in values)
        if truths and numbers and values:
            return cls([*values, *map(int, truths)], lists)
        if truths or not numbers:
            return cls([*map(str, truths), *values, *missing], lists, False)
        return cls(values, lists)

    @property
    def fractions(self) -> bool:
        """Whether some number is no whole one."""
        return any(not cast(float, as_number(value)).is_integer() for value in self.values)

    def head(self, form: FileFormat) -> Head:
        """Return the head that fits."""
        if self.lists:
            return "multilabel"
        return "regression" if self.numbers and not form.label_separator and self.fractions else "classes"

    def names(self, path: Path, head: Head, column: str) -> tuple[str, ...]:
        """Return the names of the classes in order."""
        if head == "regression":
            return ()
        if self.lists and self.numbers and set(self.values) <= {0, 1} and head == "multilabel":
            raise DataError(
                f"{path}: the lists of 0 and 1 in {column!r} say nothing of the label names",
                Option("labels", "; give labels=[...]", otherwise=f"; {_IN_CONFIG}"),
            )
        # Digits such as 007 are a name and no number.
        named = any(len(digits := str(value).strip()) > 1 and digits.startswith("0") and digits.isdecimal()
                    for value in self.values)  # fmt: skip
        numeric = self.numbers and not self.fractions and not named
        texts = {_whole_number(value) if numeric else str(value) for value in self.values}
        names = sorted(texts, key=int if numeric else lambda name: (head == "tokens" and name != "O", name))
        if len(names) < 2:
            only = f"only {names[0]!r}" if names else "no label at all"
            more = f"; add rows of another class, or {_IN_CONFIG}" if names else ": nothing can be scored"
            learning = Option("labels", "; learning needs two classes: add rows or give labels=[...]", otherwise=more)
            raise DataError(f"{path}: the column {column!r} has {only}", learning)
        return tuple(names)


def _whole_number(value: Any) -> str:
    # By way of float only where it must be: pandas writes 1 as 1.0, and a long number would lose its last digits.
    exact = isinstance(value, int) or str(value).lstrip("+-").isdecimal()
    return str(int(value if exact else cast(float, as_number(value))))


def infer_task(
    path: Path,
    form: FileFormat,
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    head: Head | None = None,
) -> tuple[Task, dict[str, str]]:
    """Return the task a file describes, and its columns by the task's names. Reads the file once, row by row."""
    source = (raw for raw in read_rows(path, form) if not raw.problem)  # the others are named where rows are read
    first = next(source, None)
    if first is None:
        raise next(read_rows(path, form)).error()
    text_column = [match_column(first.fields, name) or name for name in text_column]
    label = _label_column(path, form, first.fields, label_column, text_column)
    tokens = next((key for key in WORDS if isinstance(first.fields.get(key), list)), None)
    if head == "tokens" or (head is None and tokens):
        head, columns, names = "tokens", (text_column[0] if text_column else tokens or "tokens",), ("tokens",)
    elif head == "choices" or (head is None and (_listed(first.fields) or len(numbered_columns(first.fields)) > 1)):
        return _choice_task(path, first.fields, text_column, label)
    else:
        if label in text_column:
            raise DataError(
                f"{path}: {label!r} cannot be text and label; name another with text_column= or label_column=."
            )
        names = columns = tuple(text_column) or _text_columns(path, first.fields, label)
    if labels is not None and len(set(labels)) < len(labels):
        raise DataError(f"labels={list(labels)}: a name is given twice; each class needs its own.")
    scan = LabelScan()
    if labels is None or head is None:
        scan = _scan(path, chain((first,), source), label, form, head)
    head = head or scan.head(form)
    own = tuple(map(str, labels)) if labels is not None else scan.names(path, head, label)
    task = Task(
        name=path.name.partition(".")[0],
        title=path.name,
        kind="tokens" if head == "tokens" else "pair" if len(columns) == 2 else "sentence",
        head=head,
        columns=names,
        labels=() if head == "regression" else own,
        metrics=_metrics(head, own),
        positional=labels is not None,
        synonyms={} if label == "label" else {"label": (label,)},  # for further files of the task
    )
    return task, {**dict(zip(names, columns, strict=True)), "label": label}


def _label_column(
    path: Path, form: FileFormat, fields: Mapping[str, Any], asked: str | None, texts: Sequence[str]
) -> str:
    for name in (asked,) if asked else _LABELS:
        if (found := match_column(fields, name)) is not None:
            return found
    if not asked and (other := _other_of_two(path, form, fields, texts)):
        return other
    tagged = any(ENTITY.match(name.split()[-1]) for name in fields if name.strip())
    may_be_conll = not asked and (suffix(path) == ".txt" or (suffix(path) == ".tsv" and tagged))
    tokens = Option("head", ", or give head='tokens' if each line is a word and its tag")
    raise DataError(
        f"{path}, row 1: there is no column {asked or 'label'!r}; it has {', '.join(map(repr, fields))}; "
        "name the right one with label_column=",
        *((tokens,) if may_be_conll else ()),
    )


def _other_of_two(path: Path, form: FileFormat, fields: Mapping[str, Any], texts: Sequence[str]) -> str | None:
    """Return the label's column of a file with two columns: beside the text that is named, known or much longer."""
    words = [name for name, value in fields.items() if isinstance(value, str)]
    if len(fields) != 2 or len(texts) > 1 or not words:
        return None
    if len(words) == 1:  # a number, as Excel and JSON know it, is no text
        other = next(name for name in fields if name != words[0])
        return other if isinstance(fields[other], int | float) and other not in texts else None
    known = [*texts, *filter(None, (match_column(fields, name) for name in _SINGLE))]
    rows = [raw.fields for raw in islice(read_rows(path, form), 200) if not raw.problem]
    short, long = sorted(fields, key=lambda name: sum(len(str(row[name])) for row in rows))
    if known:
        return next(name for name in fields if name != known[0])
    lengths = [sum(len(str(row[name])) for row in rows) for name in (short, long)]
    values = {str(row[short]).strip() for row in rows}
    if short in values or as_number(short) is not None:
        raise DataError(f"{path}: its first line is a row and has no names of columns; add a line such as text,label.")
    return short if 2 * lengths[0] < lengths[1] and 2 * len(values) <= len(rows) else None


def _text_columns(path: Path, fields: Mapping[str, Any], label: str) -> tuple[str, ...]:
    rest = [name for name in fields if name != label]
    for pair in _PAIRS:
        found = [match_column(rest, name) for name in pair]
        if None not in found:
            return cast("tuple[str, str]", tuple(found))
    for name in _SINGLE:
        if (single := match_column(rest, name)) is not None:
            return (single,)
    if len(rest) == 1 and isinstance(fields[rest[0]], str) and as_number(fields[rest[0]]) is None:
        return (rest[0],)
    texts = [
        name for name, value in fields.items() if name != label and isinstance(value, str) and " " in value.strip()
    ]
    if len(texts) in (1, 2):
        return tuple(texts)
    raise DataError(
        f"{path}, row 1: it is not clear which column is the text; it has {', '.join(map(repr, fields))}; "
        "name one or two with text_column=."
    )


def _scan(path: Path, rows: Iterator[Raw], label: str, form: FileFormat, head: Head | None) -> LabelScan:
    seen: dict[tuple[bool, Any], None] = {}
    lists, numbers, ambiguous, words = False, True, "", False
    for raw in rows:
        value = raw.fields.get(label)
        where = f"{raw.location}: the column {label!r}"
        if isinstance(value, str) and (form.label_separator or head == "multilabel"):
            value = [part.strip() for part in value.split(form.label_separator or "|") if part.strip()]
        if isinstance(value, dict):
            raise DataError(f"{where} holds an object; write one label or a list.")
        parts = value if isinstance(value, list) else [value]
        if isinstance(value, list):
            lists = True
            _check_parts(parts, where)
        for part in parts:
            part = part.strip() if isinstance(part, str) and not isinstance(value, list) else part
            missing = is_missing(part)
            if not missing or (isinstance(part, str) and part):
                seen.setdefault((isinstance(part, bool), part))
            number = missing or as_number(part) is not None
            numbers = numbers and number
            ambiguous = ambiguous or (str(part) if is_ambiguous(part) else "")
            words = words or not (number or is_ambiguous(part))
        if len(seen) > MOST_LABELS and head != "regression" and not (numbers and head != "classes"):
            raise DataError(
                f"{where} already has more than {MOST_LABELS} different labels; "
                "it looks like text: name the right one with label_column=."
            )
    if ambiguous and not words and head is None:
        raise DataError(
            f"{path}: the column {label!r} holds {ambiguous!r}, whose comma may separate decimals or thousands; write "
            "a point for decimals and nothing between thousands",
            Option("head", ", or give head='classes' if it is a name"),
        )
    return LabelScan.of(seen, lists)


def _check_parts(parts: Sequence[Any], where: str) -> None:
    for part in parts:
        if isinstance(part, list | dict):
            raise DataError(f"{where} has a list that holds a list or an object; write labels as one flat list.")
        if isinstance(part, float) and part == part and not part.is_integer():
            raise DataError(
                f"{where} has a list that holds {part!r}, which is no class name; a regression has one number per row: "
                "name such a column with label_column=, or write class names."
            )


def _metrics(head: Head, labels: Sequence[str]) -> tuple[str, ...]:
    if head == "regression":
        return ("pearson", "spearman", "mse")
    if head == "multilabel":
        return ("f1_micro", "f1_macro", "exact")
    if head == "tokens":
        return ENTITY_METRICS if any(label.startswith("B-") for label in labels) else ("token_accuracy",)
    return ("accuracy", "f1") if len(labels) == 2 else ("accuracy", "f1_macro")


def choice_columns(path: Path, row: int, fields: Mapping[str, Any], asked: Sequence[str]) -> tuple[str, str, str]:
    """Return the file's names for context, question and list of choices ("": no question; a column for each choice)."""
    context = asked[0] if asked else next((key for key in _CONTEXTS if key in fields), None)
    if context is None:
        raise DataError(f"{path}, row {row}: it is not clear which column is the context; name it with text_column=.")
    question = next((key for key in ("question", "sent2") if key in fields), "")
    return context, asked[1] if len(asked) > 1 else question, _listed(fields)


def _listed(fields: Mapping[str, Any]) -> str:
    return next((key for key in _CHOICES if isinstance(fields.get(key), list)), "")


def _choice_task(
    path: Path, fields: Mapping[str, Any], text_column: Sequence[str], label: str
) -> tuple[Task, dict[str, str]]:
    context, question, listed = choice_columns(path, 1, fields, text_column)
    count = len(fields[listed]) if listed else len(numbered_columns(fields))
    columns, labels = ("context", "question", "choices"), tuple(map(str, range(count)))
    task = Task(path.name.partition(".")[0], path.name, "choices", "choices", columns, labels)
    named = {"context": context, "question": question, "choices": listed, "label": label}
    return task, {column: name for column, name in named.items() if name}
