"""What one pass over the labels of a file finds."""

from dataclasses import dataclass, field, replace
from typing import Any

from .read.labels import is_missing

MOST_LABELS = 1000


@dataclass
class Seen:
    """The labels of a file: their values, and what all of them are."""

    values: dict[Any, None] = field(default_factory=dict[Any, None])
    lists: bool = False
    numbers: bool = True
    fractions: bool = False
    words: bool = False
    """Digits that are a name and no number: 007."""
    gaps: dict[str, None] = field(default_factory=dict[str, None])
    """NA, None and their kin: missing among numbers, among words a class as the reader has it too."""
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

    def settled(self) -> "Seen":
        """The same once all are seen: what could be a number or a word is one of them."""
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
