"""Edits of a word: typing errors, obfuscation (look-alike, invisible, spaced or doubled letters) and letter case."""

import random
from collections.abc import Callable, Sequence

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _keyboard() -> dict[str, str]:
    """Return the letters beside each letter on a QWERTY keyboard: left, right, and the two above and below."""
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
LEET = dict(zip("aeiostAEIOST", "431057431057", strict=True))
ZERO_WIDTH = "\u200b"  # a space that no screen shows; tokenizers read it


def _keyboard_slip(word: str, index: int, rng: random.Random) -> str:
    neighbours = NEIGHBOURS.get(word[index].lower())
    if neighbours is None:
        return word
    letter = rng.choice(neighbours)
    return word[:index] + (letter.upper() if word[index].isupper() else letter) + word[index + 1 :]


EDITS: dict[str, Callable[[str, int, random.Random], str]] = {
    "swap": lambda word, index, rng: word[:index] + word[index : index + 2][::-1] + word[index + 2 :],
    "delete": lambda word, index, rng: word[:index] + word[index + 1 :],
    "insert": lambda word, index, rng: word[:index] + rng.choice(LETTERS) + word[index:],
    "keyboard": _keyboard_slip,
    "homoglyph": lambda word, index, rng: word[:index] + HOMOGLYPHS.get(word[index], word[index]) + word[index + 1 :],
    "leet": lambda word, index, rng: word[:index] + LEET.get(word[index], word[index]) + word[index + 1 :],
    "zero_width": lambda word, index, rng: f"{word[:index]}{ZERO_WIDTH}{word[index:]}" if index else word,
    "double": lambda word, index, rng: word[:index] + word[index] + word[index:],
    "spaced": lambda word, index, rng: " ".join(word),
}
"""What each kind of edit makes of a word, at a letter of it; `spaced` writes a space after every letter."""
TYPOS = ("swap", "delete", "insert", "keyboard")
OBFUSCATION = ("homoglyph", "leet", "zero_width", "double", "spaced")


def edit_variants(word: str, edits: Sequence[str], each: int, rng: random.Random) -> list[str]:
    """Return up to `each` different results of every kind of edit, inside the word first: its ends catch the eye.

    Kinds alternate, so that the first results already hold one of every kind.
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
    return list(dict.fromkeys(kind[number] for number in range(each) for kind in kinds if number < len(kind)))


def random_edit(word: str, edits: Sequence[str], rng: random.Random) -> str:
    """Return the word after one edit of a random kind; the word itself if no kind changes it."""
    kinds = list(edits)
    rng.shuffle(kinds)
    return next(iter(edit_variants(word, kinds, 1, rng)), word)


def case_forms(word: str) -> list[str]:
    """Return the word in capitals, with a capital, in small letters and with case swapped, without the word itself."""
    forms = dict.fromkeys((word.upper(), word.capitalize(), word.lower(), word.swapcase()))
    return [form for form in forms if form != word]


def random_case(word: str, rng: random.Random) -> str:
    """Return the word in another case, if it has one."""
    return rng.choice(case_forms(word) or [word])
