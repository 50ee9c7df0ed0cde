"""Which letters of a text changed, for a reader: also those that no screen shows."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

from .attack_examples import LONGEST, Marked, same_start

ALIKE = 0.5  # similarity of two words from which on their letters are compared
SLOW = 600  # letters; longer changes are marked as a whole
AROUND = 80  # letters kept on both sides of a mark in a long text


def mark_letters(before: str, after: str) -> tuple[Marked, Marked]:
    """Return both texts in pieces: of the first what went is marked, of the second what came."""
    removed, added = [False] * len(before), [False] * len(after)
    for old, new in _changes(before, after):
        kept = _kept(before[old], after[new])
        for number in range(old.start, old.stop):
            removed[number] = number - old.start not in kept[0]
        for number in range(new.start, new.stop):
            added[number] = number - new.start not in kept[1]
    return _pieces(before, removed), _pieces(after, added)


def _changes(before: str, after: str) -> Iterator[tuple[slice, slice]]:
    """Yield the places of changed words; where words were cut or joined, all from the first change to the last."""
    words = [list(re.finditer(r"\S+", text)) for text in (before, after)]
    if len(words[0]) == len(words[1]):
        for old, new in zip(*words, strict=True):
            if old[0] != new[0]:
                yield slice(*old.span()), slice(*new.span())
        return
    start = same_start(before, after)
    end = same_start(before[start:][::-1], after[start:][::-1])
    yield slice(start, len(before) - end), slice(start, len(after) - end)


def _kept(old: str, new: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the letters that are in both; none of words that are not alike."""
    if max(len(old), len(new)) > SLOW:
        return set(), set()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < ALIKE:
        return set(), set()
    blocks = matcher.get_matching_blocks()
    return {a + n for a, _, size in blocks for n in range(size)}, {b + n for _, b, size in blocks for n in range(size)}


def _pieces(text: str, marked: Sequence[bool]) -> Marked:
    """Cut a text where the marking changes; of a long one keep what is near the marks."""
    kept = [True] * len(text)
    if len(text) > LONGEST:
        places = [number for number, state in enumerate(marked) if state] or [0]
        kept = [False] * len(text)
        for place in places:
            for number in range(max(0, place - AROUND), min(len(text), place + AROUND)):
                kept[number] = True
    letters: list[tuple[str, bool]] = []
    for letter, state, near in zip(text, marked, kept, strict=True):
        if near:
            letters.append((_visible(letter), state))
        elif not letters or letters[-1][0] != " … ":
            letters.append((" … ", False))
    return [("".join(letter for letter, _ in part), state) for state, part in groupby(letters, key=itemgetter(1))]


def _visible(letter: str) -> str:
    """Return the letter, or the code of one that has no shape, such as a zero-width space."""
    return f"[U+{ord(letter):04X}]" if unicodedata.category(letter) in ("Cf", "Cc") and letter not in "\n\t" else letter
