"""Texts as words: which there are, which may be changed, and the texts with some of them changed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Row = Mapping[str, Any]
Place = tuple[str, int]
"""A column, and the number of a piece of its text: `text.split()[number]`."""
Changes = Mapping[Place, str]

_PIECE = re.compile(r"\S+")
_EDGES = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)


def parts(piece: str) -> tuple[str, str, str]:
    """What stands before the word in a piece of text, the word, and what stands after it: ("(", "good", ")",)."""
    found = _EDGES.match(piece)
    assert found is not None  # the pattern takes every string
    return found[1], found[2], found[3]


@dataclass(frozen=True)
class Words:
    """A text as pieces between white space. White space itself stays as it is."""

    pieces: tuple[str, ...]
    gaps: tuple[str, ...]

    @staticmethod
    def of(text: str) -> "Words":
        return Words(tuple(_PIECE.findall(text)), tuple(_PIECE.split(text)))

    def joined(self, pieces: Sequence[str]) -> str:
        """The text with these pieces in place of its own; a piece that is empty takes the space behind it along."""
        found = [self.gaps[0]]
        for number, piece in enumerate(pieces):
            found += [piece, self.gaps[number + 1]] if piece else []
        return "".join(found)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The pieces that hold a word, and not punctuation alone."""
        return tuple(number for number, piece in enumerate(self.pieces) if parts(piece)[1])

    def word(self, number: int) -> str:
        return parts(self.pieces[number])[1]


@dataclass(frozen=True)
class Passage:
    """One example: its row, the texts that may be attacked as words, and the places that may be changed."""

    row: Row
    texts: Mapping[str, Words]
    places: tuple[Place, ...]
    words: int
    """How many words there are, changeable or not: what a share of words is a share of."""

    @staticmethod
    def of(row: Row, columns: Sequence[str], keep: Callable[[str], bool]) -> "Passage":
        texts = {column: Words.of(str(row[column])) for column in columns}
        places = [(column, number) for column, text in texts.items() for number in text.places]
        free = tuple((column, number) for column, number in places if not keep(texts[column].word(number)))
        return Passage(row, texts, free, len(places))

    def word(self, place: Place) -> str:
        return self.texts[place[0]].word(place[1])

    def changed(self, changes: Changes) -> Row:
        """The row with other words in some places."""
        found = dict(self.row)
        for column in {column for column, _ in changes}:
            text = self.texts[column]
            pieces = list(text.pieces)
            for (where, number), word in changes.items():
                if where == column:
                    before, _, after = parts(pieces[number])
                    pieces[number] = f"{before}{word}{after}"
            found[column] = text.joined(pieces)
        return found

    def without(self, place: Place) -> Row:
        """The row with one piece left out."""
        column, number = place
        pieces = list(self.texts[column].pieces)
        pieces[number] = ""
        return {**self.row, column: self.texts[column].joined(pieces)}


def cased_like(word: str, model: str) -> str:
    """The word in capitals, with a capital, or as it is: as the model word is written."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
