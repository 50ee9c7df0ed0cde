"""Texts as words: which may change, how many, and the texts with some of them changed."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..tasks.spec import DataError, Task
from .base import Row

WordPosition = tuple[str, int]
"""A column, and the number of a token of its text: `text.split()[number]`."""
Replacements = Mapping[WordPosition, str]

_TOKEN = re.compile(r"\S+")
_EDGES = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)


def split_punctuation(token: str) -> tuple[str, str, str]:
    """Split a token into the punctuation before the word, the word, and that after it: ("(", "good", ")",)."""
    match = _EDGES.match(token)
    assert match is not None  # the pattern takes every string
    return match[1], match[2], match[3]


@dataclass(frozen=True)
class SplitText:
    """A text as tokens between white space, and the white space around them."""

    tokens: tuple[str, ...]
    whitespace: tuple[str, ...]

    @staticmethod
    def of(text: str) -> "SplitText":
        return SplitText(tuple(_TOKEN.findall(text)), tuple(_TOKEN.split(text)))

    def joined(self, tokens: Sequence[str]) -> str:
        """Return the text with other tokens; an empty token also removes the space after it."""
        parts = [self.whitespace[0]]
        for number, token in enumerate(tokens):
            parts += [token, self.whitespace[number + 1]] if token else []
        return "".join(parts)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The numbers of the tokens that are not punctuation alone."""
        return tuple(number for number, token in enumerate(self.tokens) if split_punctuation(token)[1])

    def word(self, number: int) -> str:
        return split_punctuation(self.tokens[number])[1]


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


def match_case(word: str, model: str) -> str:
    """Return the word in the case of the model word: in capitals, with a capital, or as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


WORD_CONSTRAINTS = ("labels", "stopwords", "numbers")

# Words that carry grammar and little meaning. Negations are not among them: an attack may garble "not".
_GRAMMAR = """
a an the this that these those i me my we our us you your he him his she her it its they them their who whom whose which
what am is are was were be been being do does did have has had will would shall should can could may might must and or
but if then than so as of at by for with about into to from in out on off over under up down again there here when where
why how also just very too
"""
STOPWORDS = frozenset(_GRAMMAR.split())


@dataclass(frozen=True)
class Budget:
    """The budget of an attack on one example.

    `queries` are texts put to the model, without the unchanged one; a gradient counts as one. `words` is the share of
    the example's words that may be changed, rounded up: in a text of two words, one word at any share above 0.
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


def word_constraint(kinds: Iterable[str], task: Task) -> Callable[[str], bool]:
    """Return the test for words that must not change: those of the task's label names, stop-words, numbers."""
    labels = set(re.findall(r"[^\W\d_]+", " ".join(task.labels).lower()))
    tests: dict[str, Callable[[str], bool]] = {
        "labels": lambda word: word.lower() in labels,
        "stopwords": lambda word: word.lower() in STOPWORDS,
        "numbers": lambda word: any(letter.isdigit() for letter in word),
    }
    chosen = [tests[kind] for kind in kinds]
    return lambda word: any(test(word) for test in chosen)
