"""Texts as words: which may change, how many, and the texts with some of them changed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import DataError
from ..text.words import SplitText, split_punctuation
from .base import Row

WordPosition = tuple[str, int]
"""A column, and the number of a token of its text: `text.split()[number]`."""
Replacements = Mapping[WordPosition, str]


@dataclass(frozen=True)
class AttackedText:
    """One example: its row, the texts that may be attacked as words, and the positions that may be changed."""

    row: Row
    texts: Mapping[str, SplitText]
    positions: tuple[WordPosition, ...]
    words: int
    """The number of all words, changeable or not: a share of words is a share of these."""

    @staticmethod
    def of(row: Row, columns: Sequence[str], keep: Callable[[str], bool]) -> "AttackedText":
        texts = {column: SplitText.of(str(row[column])) for column in columns}
        positions = [(column, number) for column, text in texts.items() for number in text.positions]
        free = tuple((column, number) for column, number in positions if not keep(texts[column].word(number)))
        return AttackedText(row, texts, free, len(positions))

    def word(self, position: WordPosition) -> str:
        return self.texts[position[0]].word(position[1])

    def changed(self, changes: Replacements) -> Row:
        """Return the row with other words in some positions."""
        row = dict(self.row)
        for column in {column for column, _ in changes}:
            text = self.texts[column]
            tokens = list(text.tokens)
            for (changed_column, number), word in changes.items():
                if changed_column == column:
                    before, _, after = split_punctuation(tokens[number])
                    tokens[number] = f"{before}{word}{after}"
            row[column] = text.joined(tokens)
        return row

    def without(self, position: WordPosition) -> Row:
        """Return the row without one token."""
        column, number = position
        tokens = list(self.texts[column].tokens)
        tokens[number] = ""
        return {**self.row, column: self.texts[column].joined(tokens)}


@dataclass(frozen=True)
class Budget:
    """The budget of an attack on one example.

    `queries` are texts put to the model, without the unchanged one; a gradient counts as one. `words` is the share of
    the example's words that may be changed, rounded up: in a text of two words, one word at any share above 0.

    Args:
        queries: Texts that the model may be asked.
        words: The share of words that may change.

    Examples:
        >>> toughen.evaluation.AttackSettings(toughen.evaluation.Budget(queries=50)).options["queries"]
        50
    """

    queries: int = 200
    words: float = 0.3

    def __post_init__(self) -> None:
        if self.queries < 0:
            raise DataError(f"queries={self.queries} is no budget; give 0 or more.")
        if not 0 <= self.words <= 1:
            raise DataError(f"words={self.words} is not a share; give a number from 0 to 1.")

    def changes(self, words: int) -> int:
        """Return how many of so many words may be changed."""
        return math.ceil(self.words * words - 1e-9)
