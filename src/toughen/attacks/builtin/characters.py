"""Edits of a word: typing errors and look-alike letters."""

import random
from collections.abc import Callable, Sequence

from ..attacked_text import WordPosition
from ..text_search import SearchState

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _keyboard() -> dict[str, str]:
    """Letters beside each letter on a QWERTY keyboard: left, right, and the two above and below."""
    neighbours: dict[str, str] = {}
    for line, row in enumerate(_ROWS):
        for index, letter in enumerate(row):
            beside = row[max(0, index - 1) : index] + row[index + 1 : index + 2]
            above = _ROWS[line - 1][index : index + 2] if line else ""
            below = _ROWS[line + 1][max(0, index - 1) : index + 1] if line < 2 else ""
            neighbours[letter] = beside + above + below
    return neighbours


NEIGHBOURS = _keyboard()
# Letters of other scripts that look the same in most typefaces (Unicode's table of confusables has them all).
HOMOGLYPHS = dict(zip("aceiopsxyABCEHIKMOPTX", "асеіорѕхуАВСЕНІКМОРТХ", strict=True))
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _swap(word: str, index: int, rng: random.Random) -> str:
    return word[:index] + word[index + 1] + word[index] + word[index + 2 :] if index + 1 < len(word) else word


def _delete(word: str, index: int, rng: random.Random) -> str:
    return word[:index] + word[index + 1 :]


def _insert(word: str, index: int, rng: random.Random) -> str:
    return word[:index] + rng.choice(LETTERS) + word[index:]


def _keyboard_slip(word: str, index: int, rng: random.Random) -> str:
    neighbours = NEIGHBOURS.get(word[index].lower())
    if neighbours is None:
        return word
    letter = rng.choice(neighbours)
    return word[:index] + (letter.upper() if word[index].isupper() else letter) + word[index + 1 :]


def _homoglyph(word: str, index: int, rng: random.Random) -> str:
    return word[:index] + HOMOGLYPHS.get(word[index], word[index]) + word[index + 1 :]


EDITS: dict[str, Callable[[str, int, random.Random], str]] = {
    "swap": _swap,
    "delete": _delete,
    "insert": _insert,
    "keyboard": _keyboard_slip,
    "homoglyph": _homoglyph,
}


def edit_variants(word: str, edits: Sequence[str], each: int, rng: random.Random) -> list[str]:
    """Up to `each` different results of every kind of edit, inside the word first: its ends catch the eye.

    Edits take turns, so that the first few already hold one of every kind.
    """
    inner = list(range(1, len(word) - 1))
    outer = [index for index in (len(word) - 1, 0) if index not in inner]
    rng.shuffle(inner)
    kinds: list[list[str]] = []
    for edit in edits:
        results: dict[str, None] = {}
        for index in [*inner, *outer]:
            new = EDITS[edit](word, index, rng)
            if new != word and new:
                results[new] = None
            if len(results) == each:
                break
        kinds.append(list(results))
    turns = [kind[turn] for turn in range(each) for kind in kinds if turn < len(kind)]
    return list(dict.fromkeys(turns))


def typo_variants(edits: Sequence[str], each: int, seed: int) -> Callable[[SearchState, WordPosition], list[str]]:
    """Return a function that lists typing errors of a word, drawn by seed, example and position."""

    def variants(state: SearchState, position: WordPosition) -> list[str]:
        word = state.text.word(position)
        return edit_variants(word, edits, each, random.Random(f"{seed}/{state.index}/{position[0]}/{position[1]}"))

    return variants
