"""The search of PWWS with the nearest words in the model's own embedding."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...text.words import match_case
from ..attacked_text import WordPosition
from ..base import register_attack
from ..text_attack import SubstitutionAttack, temperature_note
from ..text_search import SearchState, StartSearch, pwws

if TYPE_CHECKING:
    from ..target import Target


@register_attack("neighbours")
@dataclass(frozen=True)
class NeighbourAttack(SubstitutionAttack):
    """The nearest words in the model's own embeddings, by weighted saliency (PWWS); needs no synonyms."""

    title = "Neighbours in the embedding (PWWS)"
    white_box = True

    def notes(self, target: "Target") -> list[str]:
        return [temperature_note(target)]

    def start_search(self, target: "Target") -> StartSearch:
        from ..vocabulary import Vocabulary

        vocabulary = Vocabulary(target.white_box)

        def variants(state: SearchState, position: WordPosition) -> list[str]:
            word = state.text.word(position)
            return [match_case(other, word) for other in vocabulary.nearest_words(word, self.candidates)]

        return lambda state: pwws(state, variants, target.temperature)
