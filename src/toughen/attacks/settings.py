"""What a person may set of the attacks, and the attacks made from it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..tasks.spec import DataError
from .attempt import Attempt, Search
from .budget import KEEPS, Budget, checked
from .characters import EDITS, slips
from .embedding import RADII, EmbeddingAttack
from .flips import flips
from .journal import key_of
from .noise import KINDS, STRENGTHS, NoiseAttack
from .searches import greedy, weighted
from .sets import SetsAttack
from .synonyms import load_synonyms, substitutes
from .target import Attack, Target
from .texts import Begin, Prepare, TextAttack
from .victim import Precision
from .vocabulary import Vocabulary
from .words import Place, cased_like

Text: TypeAlias = tuple[str, Prepare, dict[str, Any]]
_EACH = 2  # results of every kind of edit that are tried on a word
ALL = "all"
NAMES = ("embedding", "characters", "flips", "synonyms", "neighbours", "noise", "sets")


@dataclass(frozen=True)
class AttackSettings:
    """Budgets and constraints of all attacks; each attack reads what concerns it."""

    budget: Budget = field(default_factory=Budget)
    keep: Sequence[str] = KEEPS
    """Words that stay as they are: labels, stopwords, numbers."""
    columns: Sequence[str] = ()
    """Text columns that may be changed; none named: all."""
    edits: Sequence[str] = tuple(EDITS)
    """What `characters` may do to a word."""
    candidates: int = 10
    """Substitutes tried for a word (synonyms, neighbours), flips tried after a gradient."""
    synonyms: "str | os.PathLike[str] | None" = None
    """JSON file or folder of WordNet; none: an installed package."""
    radii: Sequence[float] = RADII
    steps: int = 10
    strengths: Sequence[float] = STRENGTHS
    noise: Sequence[str] = tuple(KINDS)
    sets: Sequence[str] = ()
    """Sets or files; none: all that fit and are in the folder."""
    seed: int = 0
    precision: Precision = "auto"
    """Of searches over texts: bf16 on a GPU, fp32 elsewhere. What is reported is always judged in fp32."""

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise DataError(f"candidates={self.candidates}: give at least 1.")


def attack_names(given: "str | Sequence[str]") -> tuple[str, ...]:
    """The attacks of "characters,embedding" or of a list; "all" are all."""
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    names = [name for name in names if name]
    return NAMES if names == [ALL] else checked(names, NAMES, "attack")


def make_attacks(given: "str | Sequence[str]", settings: AttackSettings, limit: int | None = None) -> list[Attack]:
    """The attacks of these names, under these settings."""
    return [_make(name, settings, limit) for name in attack_names(given)]


def _make(name: str, told: AttackSettings, limit: int | None) -> Attack:
    if name == "embedding":
        return EmbeddingAttack(tuple(told.radii), told.steps, told.seed)
    if name == "noise":
        return NoiseAttack(tuple(told.strengths), checked(told.noise, tuple(KINDS), "noise"), told.seed)
    if name == "sets":
        return SetsAttack(tuple(told.sets), limit)
    title, prepare, own = _TEXTS[name](told)
    keep, columns = checked(told.keep, KEEPS, "keep"), tuple(told.columns)
    return TextAttack(name, title, told.budget, keep, prepare, own, columns, of_choices=name != "flips")


def _characters(told: AttackSettings) -> Text:
    edits = checked(told.edits, tuple(EDITS), "edits")
    variants = slips(edits, _EACH, told.seed)

    def begin(attempt: Attempt) -> Search:
        return greedy(attempt, variants)

    own = {"edits": list(edits), "each": _EACH, "seed": told.seed}
    return "Characters (DeepWordBug)", lambda target: (begin, None), own


def _flips(told: AttackSettings) -> Text:
    return "Word flips (HotFlip)", flips(told.candidates), {"candidates": told.candidates}


def _synonyms(told: AttackSettings) -> Text:
    table, source = load_synonyms(told.synonyms)
    variants = substitutes(table, told.candidates)

    def begin(attempt: Attempt) -> Search:
        return weighted(attempt, variants)

    own = {"candidates": told.candidates, "source": source, "digest": key_of(table)}
    return "Synonyms (PWWS)", lambda target: (begin, None), own


def _neighbours(told: AttackSettings) -> Text:
    def prepare(target: Target) -> tuple[Begin, None]:
        vocabulary = Vocabulary(target.victim)

        def variants(attempt: Attempt, place: Place) -> list[str]:
            word = attempt.passage.word(place)
            return [cased_like(other, word) for other in vocabulary.near(word, told.candidates)]

        return (lambda attempt: weighted(attempt, variants)), None

    return "Neighbours in the embedding (PWWS)", prepare, {"candidates": told.candidates}


_TEXTS: Mapping[str, Callable[[AttackSettings], Text]] = {
    "characters": _characters,
    "flips": _flips,
    "synonyms": _synonyms,
    "neighbours": _neighbours,
}
