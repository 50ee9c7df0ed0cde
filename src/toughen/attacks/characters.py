"""What a slip of the finger or a look-alike letter makes of a word."""

import random
from collections.abc import Callable, Sequence

from .attacked_text import Place
from .text_search import Attempt

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _keyboard() -> dict[str, str]:
    """Letters beside each letter on a QWERTY keyboard: left, right, and the two above and below."""
    found: dict[str, str] = {}
    for line, row in enumerate(_ROWS):
        for place, letter in enumerate(row):
            beside = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            above = _ROWS[line - 1][place : place + 2] if line else ""
            below = _ROWS[line + 1][max(0, place - 1) : place + 1] if line < 2 else ""
            found[letter] = beside + above + below
    return found


NEIGHBOURS = _keyboard()
# Letters of other scripts that look the same in most typefaces (Unicode's table of confusables has them all).
HOMOGLYPHS = dict(zip("aceiopsxyABCEHIKMOPTX", "асеіорѕхуАВСЕНІКМОРТХ", strict=True))
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _swap(word: str, place: int, dice: random.Random) -> str:
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :] if place + 1 < len(word) else word


def _delete(word: str, place: int, dice: random.Random) -> str:
    return word[:place] + word[place + 1 :]


def _insert(word: str, place: int, dice: random.Random) -> str:
    return word[:place] + dice.choice(LETTERS) + word[place:]


def _keyboard_slip(word: str, place: int, dice: random.Random) -> str:
    near = NEIGHBOURS.get(word[place].lower())
    if near is None:
        return word
    slip = dice.choice(near)
    return word[:place] + (slip.upper() if word[place].isupper() else slip) + word[place + 1 :]


def _homoglyph(word: str, place: int, dice: random.Random) -> str:
    return word[:place] + HOMOGLYPHS.get(word[place], word[place]) + word[place + 1 :]


EDITS: dict[str, Callable[[str, int, random.Random], str]] = {
    "swap": _swap,
    "delete": _delete,
    "insert": _insert,
    "keyboard": _keyboard_slip,
    "homoglyph": _homoglyph,
}


def edited(word: str, edits: Sequence[str], each: int, dice: random.Random) -> list[str]:
    """Up to `each` different results of every kind of edit, inside the word first: its ends catch the eye.

    Edits take turns, so that the first few already hold one of every kind.
    """
    inner = list(range(1, len(word) - 1))
    outer = [place for place in (len(word) - 1, 0) if place not in inner]
    dice.shuffle(inner)
    kinds: list[list[str]] = []
    for edit in edits:
        found: dict[str, None] = {}
        for place in [*inner, *outer]:
            new = EDITS[edit](word, place, dice)
            if new != word and new:
                found[new] = None
            if len(found) == each:
                break
        kinds.append(list(found))
    turns = [kind[turn] for turn in range(each) for kind in kinds if turn < len(kind)]
    return list(dict.fromkeys(turns))


def slips(edits: Sequence[str], each: int, seed: int) -> Callable[[Attempt, Place], list[str]]:
    """What the word at a place may become, drawn by seed, example and place."""

    def variants(attempt: Attempt, place: Place) -> list[str]:
        word = attempt.passage.word(place)
        return edited(word, edits, each, random.Random(f"{seed}/{attempt.index}/{place[0]}/{place[1]}"))

    return variants
