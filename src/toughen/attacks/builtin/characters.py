"""Searches over edits of letters: typing errors, and what people write to get around a filter."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...text.edits import EDITS, OBFUSCATION, TYPOS, edit_variants
from ..attacked_text import WordPosition
from ..base import option, register_attack
from ..text_attack import TextAttack
from ..text_search import SearchState

EACH = 2  # results of every kind of edit that are tried on a word


@dataclass(frozen=True)
class _EditAttack(TextAttack):
    seed: int = 0
    """Seed of everything that is drawn."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of edits."""
        raise NotImplementedError

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"each": EACH}

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return edits of a word, drawn by seed, example and position."""
        rng = random.Random(f"{self.seed}/{state.index}/{position[0]}/{position[1]}")
        return edit_variants(state.text.word(position), self.kinds, EACH, rng)


@register_attack("characters")
@dataclass(frozen=True)
class CharacterAttack(_EditAttack):
    """Typos (swap, delete, insert, keyboard) and look-alike letters, the most important word first (DeepWordBug)."""

    title = "Characters (DeepWordBug)"

    edits: Sequence[str] = option((*TYPOS, "homoglyph"), choices=tuple(EDITS))
    """Edits of a word: swap, delete, insert, keyboard, homoglyph; also leet, zero_width, double, spaced."""

    @property
    def kinds(self) -> Sequence[str]:
        return self.edits


@register_attack("obfuscation")
@dataclass(frozen=True)
class ObfuscationAttack(_EditAttack):
    """Look-alike, invisible, spaced or doubled letters and digits for letters, the most important word first."""

    title = "Obfuscation"

    obfuscations: Sequence[str] = option(OBFUSCATION, choices=OBFUSCATION)
    """Kinds of obfuscation: homoglyph, leet, zero_width, double, spaced."""

    @property
    def kinds(self) -> Sequence[str]:
        return self.obfuscations
