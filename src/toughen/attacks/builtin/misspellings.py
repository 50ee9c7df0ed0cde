"""The search over misspellings that people have made."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...text.synonyms import Misspellings, load_misspellings
from ...text.words import match_case
from ..attacked_text import WordPosition
from ..base import register_attack
from ..runner import digest
from ..text_attack import SubstitutionAttack
from ..text_search import SearchState, StartSearch, greedy

if TYPE_CHECKING:
    from ..target import Target


@register_attack("misspellings")
@dataclass(frozen=True)
class MisspellingAttack(SubstitutionAttack):
    """Misspellings that people have made, from a file, the most important word first."""

    title = "Natural misspellings"

    lexicon: "str | os.PathLike[str] | None" = None
    """Text file, also as .gz, with a word and its misspellings in each line."""
    table: Misspellings = field(init=False, repr=False, compare=False)
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table, source = load_misspellings(self.lexicon)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "source", source)

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"lexicon": self.source, "digest": digest(self.table)}

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: greedy(state, self.variants)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return the first misspellings of a word, in the case of the word."""
        word = state.text.word(position)
        others = dict.fromkeys(match_case(other, word) for other in self.table.get(word.lower(), ()))
        return [other for other in others if other != word][: self.candidates]
