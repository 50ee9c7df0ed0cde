"""The search over misspellings that people have made."""

import os
from dataclasses import dataclass

from ...text.synonyms import Misspellings, load_misspellings
from ..base import register_attack
from ..text_attack import TableAttack


@register_attack("misspellings")
@dataclass(frozen=True)
class MisspellingAttack(TableAttack):
    """Misspellings that people have made, from a file, the most important word first."""

    title = "Natural misspellings"
    file_option = "lexicon"

    lexicon: "str | os.PathLike[str] | None" = None
    """Text file, also as .gz, with a word and its misspellings in each line."""

    def load(self) -> tuple[Misspellings, str]:
        return load_misspellings(self.lexicon)
