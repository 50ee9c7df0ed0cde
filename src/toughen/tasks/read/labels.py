"""Labels as written turned into numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..spec import Option, Task
from .lines import Format

_NO_LABEL = ("", "nan", "na", "n/a", "null", "none")


class BadRow(Exception):
    """A row that cannot be used: what is wrong with it, how to mend it, and options that help."""

    def __init__(self, kind: str, remedy: str, *options: Option):
        """Keep the kind for the report's counts and the whole for the error."""
        super().__init__(f"{kind}; {remedy}")
        self.kind, self.options = kind, options


def is_missing(value: Any) -> bool:
    """Whether a cell says that there is no label, as R (NA), pandas (nan) and Python (None) write it."""
    if isinstance(value, str):
        return value.strip().lower() in _NO_LABEL
    return value is None or (isinstance(value, float) and math.isnan(value))


def label_reader(task: Task, form: Format, multi_hot: bool | None = None) -> Callable[[Any], Any]:
    """A function from a label as written to a number, a list of numbers, or None when there is no label.

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
            known[int(label)] = known[float(label)] = number
        known.setdefault(label.lower(), number)
        known[label] = number
    known.update({word: known[label] for word, label in task.words.items() if label})
    empty = {word for word, label in task.words.items() if not label}

    def one(value: Any) -> int | None:
        try:
            number = known.get(value)
        except TypeError:
            multilabel = Option("head", ": give head='multilabel'", otherwise=", as the model gives one")
            raise BadRow("label is a list", f"{value!r} should be one label", multilabel) from None
        if number is not None and not isinstance(value, bool):
            return number
        if value in empty or value == -1 or value == "-1":
            return None
        if is_missing(value) and not isinstance(value, str):  # as a word it may be a class
            return None
        if isinstance(value, str):
            short = value.strip()
            number = known.get(short, known.get(short.lower()))
            if number is None and not words:
                number = known.get(_as_float(short))  # pandas writes 1 as 1.0
        elif isinstance(value, bool):
            number = known.get(str(value), known.get(str(value).lower(), known.get(int(value))))
        else:
            number = known.get(str(value))  # a file may hold both 1 and "1"
        if number is None and is_missing(value):
            return None
        if number is None:
            shown = ", ".join(task.labels[:8]) + (", ..." if len(task.labels) > 8 else "")
            names = Option("labels", " or give labels=[...]", otherwise=" or leave the row out")
            raise BadRow("label outside the set", f"{value!r} is none of {shown}: mend it", names)
        return number

    def several(value: Any) -> list[int] | None:
        if value is None:
            return None
        if isinstance(value, str):
            value = [part.strip() for part in value.split(form.label_separator or "|") if part.strip()]
        if not isinstance(value, list | tuple):
            value = [value]
        if task.head == "multilabel" and is_multi_hot(value, task):
            if multi_hot or multi_hot is None:
                return [number for number, on in enumerate(cast(Sequence[Any], value)) if on]
            if len(set(value)) < len(value):
                remedy = f"write a 0 or 1 for each of the {len(task.labels)} labels in every row, or names everywhere"
                raise BadRow("a class number is there twice", f"{value!r} is no list of classes: {remedy}")
        numbers = [one(part) for part in cast(Sequence[Any], value)]
        if None in numbers:
            return None
        return cast("list[int]", numbers)

    return several if task.head in ("multilabel", "tokens") else one


def _is_number(label: str) -> bool:
    """Whether a label is a whole number as such, and not a name of digits: 007."""
    digits = label.removeprefix("-")
    return digits.isdecimal() and (digits == "0" or not digits.startswith("0"))


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def is_multi_hot(value: Any, task: Task) -> bool:
    """Whether a list may be a 0 or 1 for each label; with two labels [0, 1] may be both class numbers as well."""
    return len(value) == len(task.labels) and all(part in (0, 1) and not isinstance(part, str) for part in value)


def _number(value: Any) -> float | None:
    if is_missing(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        share = isinstance(value, str) and _as_float(value.strip().removesuffix("%")) is not None
        way = "write shares without the sign, in all rows" if share else "mend it"
        options = () if share else (Option("head", " or give head='classes'"),)
        raise BadRow("label is not a number", f"{value!r} should be a number: {way}", *options) from None
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise BadRow("label is infinite", "give a finite number")
    return number


def unlabelled(task: Task, row: Mapping[str, Any]) -> Any:
    """What the Hub writes where a test set keeps its labels to itself."""
    if task.head == "tokens":
        return [-1] * len(row["tokens"])
    return {"regression": -1.0, "multilabel": []}.get(task.head, -1)
