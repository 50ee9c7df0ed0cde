"""The search of BERT-Attack (Li et al. 2020): substitutes that a masked language model proposes in context."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...tasks.spec import DataError
from ...text.words import match_case
from ..attacked_text import WordPosition
from ..base import register_attack
from ..language_models import check_name
from ..runner import weights_fingerprint
from ..text_attack import SubstitutionAttack
from ..text_search import BatchFunction, Query, Search, SearchState, StartSearch, greedy

if TYPE_CHECKING:
    from ..target import Target


@register_attack("bert_attack")
@dataclass(frozen=True)
class BertAttack(SubstitutionAttack):
    """Words that a masked language model proposes in context, the most important word first (BERT-Attack)."""

    title = "Words of a language model (BERT-Attack)"

    masked_lm: str | None = None
    """Masked language model (folder or Hub id) that proposes words."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masked_lm is None:
            raise DataError(
                "attack 'bert_attack' takes its words from a masked language model: give masked_lm= (--masked_lm) a "
                "folder or Hub id, such as bert-base-uncased; neighbours needs nothing."
            )
        check_name(self.masked_lm, "masked_lm")

    def cache_key(self, target: "Target") -> Sequence[Any]:
        return [*super().cache_key(target), *weights_fingerprint(Path(str(self.masked_lm)))]

    def start_search(self, target: "Target") -> StartSearch:
        from ..language_models import MaskedProposals

        proposals = MaskedProposals(str(self.masked_lm), self.candidates, target.victim.device)
        return lambda state: bert_attack(state, proposals, self.candidates)


def bert_attack(state: SearchState, proposals: BatchFunction, candidates: int) -> Search:
    """Take the proposals for every word of the original text once, then go on as `greedy` does."""
    (words,) = yield Query([{column: state.text.row[column] for column in state.text.texts}], proposals)

    def variants(state: SearchState, position: WordPosition) -> list[str]:
        old = state.text.word(position)
        others = dict.fromkeys(each for each in words.get(position, ()) if each.lower() != old.lower())
        return [match_case(each, old) for each in others][:candidates]

    yield from greedy(state, variants)
