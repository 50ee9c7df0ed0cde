"""The search of TextFooler (Jin et al. 2020): substitutes that keep the part of speech and the sentence's meaning."""

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...tasks.spec import DataError
from ...text.synonyms import PartsOfSpeech
from ..attacked_text import Replacements, WordPosition
from ..base import register_attack
from ..language_models import TextEncoder, check_name
from ..runner import weights_fingerprint
from ..text_search import BatchFunction, Query, Search, SearchState, StartSearch, Variants, descending, highest
from .synonyms import SynonymAttack

if TYPE_CHECKING:
    from ..target import Target

Tagger: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""From the words of a text to a tag for each."""


@register_attack("textfooler")
@dataclass(frozen=True)
class TextFoolerAttack(SynonymAttack):
    """Words of like meaning that keep part of speech and meaning of the sentence, by importance (TextFooler)."""

    title = "Substitutes under constraints (TextFooler)"

    parts_of_speech: "str | os.PathLike[str] | Tagger | None" = None
    """Folder of WordNet: a substitute must share a part of speech with the word. From Python also a tagger of words."""
    judge: "str | TextEncoder | None" = None
    """Encoder (folder or Hub id) whose vectors say how alike two texts are; none: off. From Python also a function."""
    similarity: float = 0.8
    """Cosine of the judge's vectors that a changed text must have with the original."""
    _parts: PartsOfSpeech | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.similarity <= 1:
            raise DataError(f"similarity={self.similarity}: give a cosine from 0 to 1.")
        if isinstance(self.judge, str):
            check_name(self.judge, "judge")
        given = self.parts_of_speech
        object.__setattr__(self, "_parts", None if given is None or callable(given) else PartsOfSpeech(given))

    @property
    def settings(self) -> dict[str, Any]:
        given, judge = self.parts_of_speech, self.judge
        parts = _name_of(given) if callable(given) else given and Path(given).name
        sources = {"judge": _name_of(judge) if callable(judge) else judge, "parts_of_speech": parts}
        return super().settings | sources | {"similarity": None if judge is None else self.similarity}

    def cache_key(self, target: "Target") -> Sequence[Any]:
        judge = weights_fingerprint(Path(self.judge)) if isinstance(self.judge, str) else []
        return [*super().cache_key(target), *judge]

    def notes(self, target: "Target") -> list[str]:
        """Say which constraints are off."""
        off = {"part of speech (parts_of_speech=)": self.parts_of_speech, "sentence similarity (judge=)": self.judge}
        return [f"off: {name}" for name, given in off.items() if given is None]

    def start_search(self, target: "Target") -> StartSearch:
        from ..language_models import SentenceEncoder

        judge = None if self.judge is None else SentenceEncoder(self.judge, target.victim.device)
        return lambda state: textfooler(state, self.variants, judge, self.similarity)

    def variants(self, state: SearchState, position: WordPosition) -> list[str]:
        """Return synonyms of a word that can be of its part of speech."""
        return [word for word in super().variants(state, position) if self._fits(state, position, word)]

    def _fits(self, state: SearchState, position: WordPosition, new: str) -> bool:
        old = state.text.word(position)
        if self._parts is not None:
            before, after = self._parts(old), self._parts(new)
            return not before or not after or bool(before & after)  # what WordNet does not know cannot be refused
        if callable(self.parts_of_speech):
            column, number = position
            words = [state.text.word((column, each)) for each in range(len(state.text.texts[column].tokens))]
            changed = [*words[:number], new, *words[number + 1 :]]
            return self.parts_of_speech(words)[number] == self.parts_of_speech(changed)[number]
        return True


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def textfooler(state: SearchState, variants: Variants, judge: BatchFunction | None, similarity: float) -> Search:
    """Replace word after word, the most important first, by a substitute that the judge lets pass.

    Of the substitutes that succeed the text most like the original is taken, else the one that raises the margin most.
    """
    importance = yield from state.importance()
    for position in descending(importance):
        if state.done:
            return
        candidates: list[Replacements] = [{position: word} for word in variants(state, position)]
        if judge is None:
            yield from state.improve(candidates)
            continue
        alike = yield from _similarities(state, candidates, judge)
        kept = [(one, value) for one, value in zip(candidates, alike, strict=True) if value >= similarity]
        margins = yield from state.query([state.text.changed({**state.changes, **one}) for one, _ in kept])
        if not margins:
            continue
        successes = [number for number, margin in enumerate(margins) if margin > state.tie]
        best = max(successes, key=lambda number: kept[number][1]) if successes else highest(margins)
        if margins[best] > state.margin:
            state.apply(kept[best][0], margins[best])


def _similarities(
    state: SearchState, candidates: Sequence[Replacements], judge: BatchFunction
) -> Generator[Query, Sequence[Any], list[float]]:
    """Return how alike the original and each candidate are: in the text of a pair that differs most."""
    if not candidates:
        return []
    changed = [state.text.changed({**state.changes, **each}) for each in candidates]
    original, *vectors = yield Query([state.text.row, *changed], judge)
    return [float((original * each).sum(-1).min()) for each in vectors]
