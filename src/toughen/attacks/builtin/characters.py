"""Searches over edits of letters: typing errors, and what people write to get around a filter."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...text.edits import EDITS, OBFUSCATION, TYPOS, edit_variants
from ..attacked_text import WordPosition
from ..base import option, register_attack
from ..text_attack import TextAttack
from ..text_search import SearchState, StartSearch, greedy

if TYPE_CHECKING:
    from ..target import Target

EACH = 2  # results of every kind of edit that are tried on a word


@register_attack("characters")
@dataclass(frozen=True)
class CharacterAttack(TextAttack):
    """Typos (swap, delete, insert, keyboard) and look-alike letters, the most important word first (DeepWordBug)."""

    title = "Characters (DeepWordBug)"

    edits: Sequence[str] = option((*TYPOS, "homoglyph"), choices=tuple(EDITS))
    """Edits of a word: swap, delete, insert, keyboard, homoglyph; also leet, zero_width, double, spaced."""
    seed: int = 0
    """Seed of everything that is drawn."""

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"each": EACH}

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: greedy(state, self.variants)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return typing errors of a word, drawn by seed, example and position."""
        return _variants(state, position, self.edits, self.seed)


@register_attack("obfuscation")
@dataclass(frozen=True)
class ObfuscationAttack(TextAttack):
    """Look-alike, invisible, spaced or doubled letters and digits for letters, the most important word first."""

    title = "Obfuscation"

    obfuscations: Sequence[str] = option(OBFUSCATION, choices=OBFUSCATION)
    """Kinds of obfuscation: homoglyph, leet, zero_width, double, spaced."""
    seed: int = 0
    """Seed of everything that is drawn."""

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"each": EACH}

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: greedy(state, self.variants)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return obfuscated forms of a word, drawn by seed, example and position."""
        return _variants(state, position, self.obfuscations, self.seed)


def _variants(state: SearchState, position: WordPosition, edits: Sequence[str], seed: int) -> list[str]:
    rng = random.Random(f"{seed}/{state.index}/{position[0]}/{position[1]}")
    return edit_variants(state.text.word(position), edits, EACH, rng)
