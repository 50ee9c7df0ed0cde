"""A task inferred from the user's own file: which columns are text, what the labels are, which head fits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from .catalog import ENTITY_METRICS
from .read.files import ENTITY, FileFormat, Raw, place, read_rows, suffix
from .read.rows import is_missing, numbered_columns
from .spec import DataError, Head, Option, Task

MOST_LABELS = 1000


@dataclass
class LabelScan:
    """The labels of a file: their values, and what all of them are."""

    values: dict[Any, None] = field(default_factory=dict[Any, None])
    lists: bool = False
    numbers: bool = True
    fractions: bool = False
    words: bool = False
    """Digits that are a name and no number: 007."""
    gaps: dict[str, None] = field(default_factory=dict[str, None])
    """NA, None and the like: missing labels among numbers, classes among words (as for the label reader)."""
    truths: dict[bool, None] = field(default_factory=dict[bool, None])
    """True and False: among numbers 1 and 0, which Python takes for equal; else words."""

    def add(self, value: Any) -> None:
        """Look at one more."""
        if isinstance(value, bool):
            self.truths.setdefault(value)
            return
        if is_missing(value):
            if isinstance(value, str) and _as_number(value) is None and value:
                self.gaps.setdefault(value)
            return
        number = _as_number(value)
        self.numbers = self.numbers and number is not None
        self.fractions = self.fractions or (number is not None and not number.is_integer())
        self.words = self.words or _is_word(value)
        if len(self.values) <= MOST_LABELS:
            self.values.setdefault(value)

    def settled(self) -> "LabelScan":
        """The same once all labels are known: what could be a number or a word is one of them."""
        if self.truths and self.numbers and self.values:
            return replace(self, values={**self.values, **{int(truth): None for truth in self.truths}})
        numbers = self.numbers and not self.truths
        values = {**{str(truth): None for truth in self.truths}, **self.values}
        return replace(self, numbers=numbers, values=values if numbers else {**values, **self.gaps})


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _is_word(value: Any) -> bool:
    digits = value.strip() if isinstance(value, str) else ""
    return len(digits) > 1 and digits.isdecimal() and digits.startswith("0")


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


def infer_task(
    path: Path,
    form: FileFormat,
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    head: Head | None = None,
) -> tuple[Task, dict[str, str]]:
    """The task a file describes, and its columns by the task's names. Reads the file once, row by row."""
    source = read_rows(path, form)
    first = next(source)
    label = _label_column(path, first.fields, label_column)
    tokens = next((key for key in WORDS if isinstance(first.fields.get(key), list)), None)
    listed = _listed(first.fields)
    if head == "tokens" or (head is None and tokens):
        kind, columns = "tokens", (text_column[0] if text_column else tokens or "tokens",)
        head = "tokens"
    elif head == "choices" or (head is None and (listed or len(numbered_columns(first.fields)) > 1)):
        return _choice_task(path, first.fields, text_column, label)
    else:
        if label in text_column:
            raise DataError(
                f"{path}: {label!r} cannot be text and label; name another with text_column= or label_column=."
            )
        columns = tuple(text_column) or _text_columns(path, first.fields, label)
        kind = "pair" if len(columns) == 2 else "sentence"
    scan = _look(path, first, source, label, form, head) if labels is None or head is None else LabelScan()
    head = head or _head(scan, form)
    if labels is not None and len(set(labels)) < len(labels):
        raise DataError(f"labels={list(labels)}: a name is there twice; each class needs its own.")
    own = tuple(map(str, labels)) if labels is not None else _label_names(path, scan, head, label)
    names = ("tokens",) if kind == "tokens" else columns
    task = Task(
        name=path.name.partition(".")[0],
        title=path.name,
        kind=kind,
        head=head,
        columns=names,
        labels=() if head == "regression" else own,
        metrics=_metrics(head, own),
        positional=labels is not None,
        synonyms={} if label == "label" else {"label": (label,)},  # for further files of the task
    )
    return task, {**dict(zip(names, columns, strict=True)), "label": label}


def _label_column(path: Path, fields: Mapping[str, Any], asked: str | None) -> str:
    known = (asked,) if asked else _LABELS
    found = next((name for name in known if name in fields), None)
    if found is None:
        raise DataError(
            f"{path}, row 1: there is no column {asked or 'label'!r}; it has {', '.join(map(repr, fields))}; "
            "name the right one with label_column=",
            *_or_tokens(path, fields, asked),
        )
    return found


def _or_tokens(path: Path, fields: Mapping[str, Any], asked: str | None) -> tuple[Option, ...]:
    """A further way where the first line may be a word with its tag, and no names of columns."""
    tagged = any(ENTITY.match(name.split()[-1]) for name in fields if name.strip())
    if asked or not (suffix(path) == ".txt" or (suffix(path) == ".tsv" and tagged)):
        return ()
    return (Option("head", ", or give head='tokens' if each line is a word and its tag"),)


def _text_columns(path: Path, fields: Mapping[str, Any], label: str) -> tuple[str, ...]:
    for pair in _PAIRS:
        if all(name in fields and name != label for name in pair):
            return pair
    for name in _SINGLE:
        if name in fields and name != label:
            return (name,)
    texts = [
        name for name, value in fields.items() if name != label and isinstance(value, str) and " " in value.strip()
    ]
    if len(texts) in (1, 2):
        return tuple(texts)
    raise DataError(
        f"{path}, row 1: it is not clear which column is the text; it has {', '.join(map(repr, fields))}; "
        "name one or two with text_column=."
    )


def _look(path: Path, first: Raw, rest: Iterator[Raw], label: str, form: FileFormat, head: Head | None) -> LabelScan:
    scan = LabelScan()
    for raw in chain((first,), rest):
        value = raw.fields.get(label)
        if isinstance(value, str) and (form.label_separator or head == "multilabel"):
            value = [part.strip() for part in value.split(form.label_separator or "|") if part.strip()]
        if isinstance(value, str):
            value = value.strip()
        if isinstance(value, dict):
            raise DataError(f"{place(path, raw)}: the column {label!r} holds an object; write one label or a list.")
        if isinstance(value, list):
            scan.lists = True
            for part in cast("list[Any]", value):
                _check_part(part, f"{place(path, raw)}: the list in the column {label!r}")
                scan.add(part)
        else:
            scan.add(value)
        amounts = head == "regression" or (scan.numbers and head != "classes")
        if len(scan.values) > MOST_LABELS and not amounts:
            raise DataError(
                f"{place(path, raw)}: the column {label!r} already has more than {MOST_LABELS} different labels; "
                "it looks like text: name the right one with label_column=."
            )
    return scan.settled()


def _check_part(part: Any, where: str) -> None:
    if isinstance(part, list | dict):
        raise DataError(f"{where} holds a list or an object; write labels as one flat list.")
    if isinstance(part, float) and part == part and not part.is_integer():
        raise DataError(
            f"{where} holds {part!r}, which names no class; a model learns one amount a row: name a column with one "
            "number by label_column=, or write names of classes."
        )


def _head(scan: LabelScan, form: FileFormat) -> Head:
    if scan.lists:
        return "multilabel"
    return "regression" if scan.numbers and scan.fractions and not form.label_separator else "classes"


def _label_names(path: Path, scan: LabelScan, head: Head, label: str) -> tuple[str, ...]:
    if head == "regression":
        return ()
    if scan.lists and scan.numbers and set(scan.values) <= {0, 1} and head == "multilabel":
        raise DataError(
            f"{path}: the lists of 0 and 1 in {label!r} say nothing of the label names",
            Option("labels", "; give labels=[...]", otherwise=f"; {_IN_CONFIG}"),
        )
    numeric = scan.numbers and not scan.fractions and not scan.words
    # By way of float only where it must be: pandas writes 1 as 1.0, and a long number would lose its last digits.
    names = sorted({_whole(value) if numeric else str(value) for value in scan.values}, key=int if numeric else None)
    if len(names) < 2:
        only = f"only {names[0]!r}" if names else "no label at all"
        more = f"; add rows of another class, or {_IN_CONFIG}" if names else ": nothing can be scored"
        learning = Option("labels", "; learning needs two classes: add rows or give labels=[...]", otherwise=more)
        raise DataError(f"{path}: the column {label!r} has {only}", learning)
    if head == "tokens" and "O" in names:
        names = ["O", *(name for name in names if name != "O")]
    return tuple(names)


def _metrics(head: Head, labels: Sequence[str]) -> tuple[str, ...]:
    if head == "regression":
        return ("pearson", "spearman", "mse")
    if head == "multilabel":
        return ("f1_micro", "f1_macro", "exact")
    if head == "tokens":
        return ENTITY_METRICS if any(label.startswith("B-") for label in labels) else ("token_accuracy",)
    return ("accuracy", "f1") if len(labels) == 2 else ("accuracy", "f1_macro")


def choice_columns(path: Path, row: int, fields: Mapping[str, Any], asked: Sequence[str]) -> tuple[str, str, str]:
    """The file's names for context, question and the list of choices ("": no question; a column for each choice)."""
    context = asked[0] if asked else next((key for key in _CONTEXTS if key in fields), None)
    if context is None:
        raise DataError(f"{path}, row {row}: it is not clear which column is the context; name it with text_column=.")
    found = next((key for key in ("question", "sent2") if key in fields), "")
    return context, asked[1] if len(asked) > 1 else found, _listed(fields)


def _listed(fields: Mapping[str, Any]) -> str:
    return next((key for key in _CHOICES if isinstance(fields.get(key), list)), "")


def _choice_task(
    path: Path, fields: Mapping[str, Any], text_column: Sequence[str], label: str
) -> tuple[Task, dict[str, str]]:
    context, question, listed = choice_columns(path, 1, fields, text_column)
    count = len(fields[listed]) if listed else len(numbered_columns(fields))
    task = Task(
        name=path.name.partition(".")[0],
        title=path.name,
        kind="choices",
        head="choices",
        columns=("context", "question", "choices"),
        labels=tuple(map(str, range(count))),
    )
    named = {"context": context, "label": label}
    named.update({"question": question} if question else {})
    named.update({"choices": listed} if listed else {})
    return task, named


def _whole(value: Any) -> str:
    return str(int(value if isinstance(value, int) or str(value).lstrip("+-").isdecimal() else float(value)))
