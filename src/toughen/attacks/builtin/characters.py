"""Typing errors and look-alike letters: edits of a word, and the attack that searches over them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..attacked_text import WordPosition
from ..base import option, register_attack
from ..text_attack import TextAttack
from ..text_search import SearchState, StartSearch, greedy

if TYPE_CHECKING:
    from ..target import Target

EACH = 2  # results of every kind of edit that are tried on a word
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
}


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


@register_attack("characters")
@dataclass(frozen=True)
class CharacterAttack(TextAttack):
    """Typos (swap, delete, insert, keyboard) and look-alike letters, the most important word first (DeepWordBug)."""

    title = "Characters (DeepWordBug)"

    edits: Sequence[str] = option(tuple(EDITS), choices=tuple(EDITS))
    """Edits of a word: swap, delete, insert, keyboard, homoglyph."""
    seed: int = 0
    """Seed of everything that is drawn."""

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"each": EACH}

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: greedy(state, self.variants)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return typing errors of a word, drawn by seed, example and position."""
        rng = random.Random(f"{self.seed}/{state.index}/{position[0]}/{position[1]}")
        return edit_variants(state.text.word(position), self.edits, EACH, rng)
