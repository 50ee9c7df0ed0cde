"""The search over letter case."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...text.edits import case_forms
from ..attacked_text import WordPosition
from ..base import register_attack
from ..text_attack import TextAttack
from ..text_search import SearchState

if TYPE_CHECKING:
    from ..target import Target


@register_attack("casing")
@dataclass(frozen=True)
class CasingAttack(TextAttack):
    """Words in capitals, with a capital, in small letters or with case swapped, the most important word first."""

    title = "Letter case"

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        return case_forms(state.text.word(position))

    def notes(self, target: "Target") -> list[str]:
        """Say when there was nothing to attack."""
        if not target.has_weights:
            return []
        tokenizer = target.white_box.tokenizer
        texts = [text for row in target.rows[:8] for text in row.values() if isinstance(text, str)]
        same = all(tokenizer(text.upper())["input_ids"] == tokenizer(text.lower())["input_ids"] for text in texts)
        return ["this tokenizer makes all letters small: case cannot change an answer"] if same else []
