"""Gradient-guided flips of whole words (HotFlip, Ebrahimi et al. 2018): one gradient ranks a whole vocabulary."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...text.words import match_case
from ..attacked_text import Replacements, WordPosition
from ..base import register_attack
from ..text_attack import SubstitutionAttack
from ..text_search import BatchFunction, Search, SearchState, StartSearch

if TYPE_CHECKING:
    from ..target import Target
    from ..vocabulary import Gains


@register_attack("flips")
@dataclass(frozen=True)
class FlipAttack(SubstitutionAttack):
    """Other words of the model's vocabulary, ranked by the gradient of the embeddings (HotFlip)."""

    title = "Word flips (HotFlip)"
    white_box = True
    supports_choices = False

    def start_search(self, target: "Target") -> StartSearch:
        from ..vocabulary import Vocabulary, VocabularyGradients

        gradients = VocabularyGradients(target.white_box, Vocabulary(target.white_box), self.candidates)
        return lambda state: hotflip(state, gradients, self.candidates)


def hotflip(state: SearchState, gradients: BatchFunction, candidates: int) -> Search:
    """Try the flips with the highest expected gain, apply the best one that helps, and ask for a new gradient."""
    while not state.done:
        ranked = _ranked(state, (yield from state.ask(gradients)))
        for start in range(0, len(ranked), candidates):
            if (yield from state.improve(ranked[start : start + candidates])) or state.queries_left <= 0:
                break
        else:
            return


def _ranked(state: SearchState, gains: "Gains") -> list[Replacements]:
    """Return flips of words that may be changed and have not been, the highest expected gain first."""
    flips: list[tuple[float, WordPosition, str]] = []
    for position in state.text.positions:
        if position not in state.changes:
            old = state.text.word(position)
            flips += [(gain, position, match_case(word, old)) for gain, word in gains.get(position, ())]
    flips.sort(key=lambda each: -each[0])
    return [{position: word} for _, position, word in flips if word.lower() != state.text.word(position).lower()]
