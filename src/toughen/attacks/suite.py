"""The options of all attacks, the attacks made from them, and a run of several attacks in turn."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ..evaluation.outputs import Outputs
from ..tasks.scoring import kept_tokens
from ..tasks.spec import DataError, Task
from .attacked_text import WORD_CONSTRAINTS, Budget, Row, WordPosition, check_names, match_case
from .builtin.characters import EDITS, typo_variants
from .builtin.flips import hotflip
from .builtin.noise import NOISE_TRANSFORMS, STRENGTHS, NoiseAttack
from .builtin.sets import SetsAttack
from .builtin.synonyms import Vocabulary, load_synonyms, synonym_variants
from .pgd import RADII, EmbeddingAttack
from .runner import AttackResult, digest, run_attack, say
from .target import Attack, Target
from .text_attack import Prepare, StartSearch, TextAttack
from .text_search import Search, SearchState, greedy, pwws
from .victim import Precision, Victim

Text: TypeAlias = tuple[str, Prepare, dict[str, Any]]
_EACH = 2  # results of every kind of edit that are tried on a word
ALL = "all"
NAMES = ("embedding", "characters", "flips", "synonyms", "neighbours", "noise", "sets")


@dataclass(frozen=True)
class AttackSettings:
    """Budgets and constraints of all attacks; each attack reads what concerns it."""

    budget: Budget = field(default_factory=Budget)
    keep: Sequence[str] = WORD_CONSTRAINTS
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
    noise: Sequence[str] = tuple(NOISE_TRANSFORMS)
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
    return NAMES if names == [ALL] else check_names(names, NAMES, "attack")


def make_attacks(given: "str | Sequence[str]", settings: AttackSettings, limit: int | None = None) -> list[Attack]:
    """The attacks of these names, under these settings."""
    return [_make(name, settings, limit) for name in attack_names(given)]


def _make(name: str, settings: AttackSettings, limit: int | None) -> Attack:
    if name == "embedding":
        return EmbeddingAttack(tuple(settings.radii), settings.steps, settings.seed)
    if name == "noise":
        return NoiseAttack(
            tuple(settings.strengths), check_names(settings.noise, tuple(NOISE_TRANSFORMS), "noise"), settings.seed
        )
    if name == "sets":
        return SetsAttack(tuple(settings.sets), limit)
    title, prepare, own = _TEXTS[name](settings)
    keep, columns = check_names(settings.keep, WORD_CONSTRAINTS, "keep"), tuple(settings.columns)
    return TextAttack(name, title, settings.budget, keep, prepare, own, columns, of_choices=name != "flips")


def _characters(settings: AttackSettings) -> Text:
    edits = check_names(settings.edits, tuple(EDITS), "edits")
    variants = typo_variants(edits, _EACH, settings.seed)

    def start_search(state: SearchState) -> Search:
        return greedy(state, variants)

    own = {"edits": list(edits), "each": _EACH, "seed": settings.seed}
    return "Characters (DeepWordBug)", lambda target: (start_search, None), own


def _flips(settings: AttackSettings) -> Text:
    return "Word flips (HotFlip)", hotflip(settings.candidates), {"candidates": settings.candidates}


def _synonyms(settings: AttackSettings) -> Text:
    table, source = load_synonyms(settings.synonyms)
    variants = synonym_variants(table, settings.candidates)

    def start_search(state: SearchState) -> Search:
        return pwws(state, variants)

    own = {"candidates": settings.candidates, "source": source, "digest": digest(table)}
    return "Synonyms (PWWS)", lambda target: (start_search, None), own


def _neighbours(settings: AttackSettings) -> Text:
    def prepare(target: Target) -> tuple[StartSearch, None]:
        vocabulary = Vocabulary(target.victim)

        def variants(state: SearchState, position: WordPosition) -> list[str]:
            word = state.text.word(position)
            return [match_case(other, word) for other in vocabulary.nearest_words(word, settings.candidates)]

        return (lambda state: pwws(state, variants)), None

    return "Neighbours in the embedding (PWWS)", prepare, {"candidates": settings.candidates}


_TEXTS: Mapping[str, Callable[[AttackSettings], Text]] = {
    "characters": _characters,
    "flips": _flips,
    "synonyms": _synonyms,
    "neighbours": _neighbours,
}


@dataclass(frozen=True)
class Suite:
    """Attacks made once for all models, so that a wrong name or a missing file is an error before anything runs."""

    attacks: Sequence[Attack]
    settings: AttackSettings
    progress: bool = False
    every: bool = False
    """Whether all were asked for: then those that do not fit are left out, and an error otherwise."""

    @staticmethod
    def of(names: "str | Sequence[str]", settings: AttackSettings | None, limit: int | None, progress: bool) -> "Suite":
        settings = settings or AttackSettings()
        if names not in (ALL, [ALL], (ALL,)):
            return Suite(make_attacks(names, settings, limit), settings, progress)
        attacks = [attack for name in NAMES for attack in _made(name, settings, limit, progress)]
        return Suite(attacks, settings, progress, every=True)

    def target(
        self,
        model: Any,
        tokenizer: Any,
        task: Task,
        rows: Sequence[Row],
        outputs: Outputs,
        *,
        max_length: int | None = None,
        batch_size: int | None = None,
        **about: Any,
    ) -> Target:
        """A model with its rows, and what it says of them unchanged."""
        if not self.every:
            for attack in self.attacks:
                attack.check(task)
        precision = self.settings.precision
        victim = Victim(model, tokenizer, task, max_length=max_length, batch_size=batch_size, precision=precision)
        logits, labels = outputs.logits, outputs.labels
        if task.head == "tokens":
            logits, labels = kept_tokens(logits, labels)
        return Target(victim, rows, logits, labels, **about)

    def run(
        self, target: Target, *, home: Path | None, label: str, model: Path, where: str
    ) -> tuple[AttackResult, ...]:
        return tuple(
            run_attack(attack, target, home=home, label=label, model=model, where=where, progress=self.progress)
            for attack in self.attacks
            if not self.every or self._fits(attack, target.task)
        )

    def _fits(self, attack: Attack, task: Task) -> bool:
        try:
            attack.check(task)
        except DataError as problem:
            say(f"left out: {problem}", self.progress)
            return False
        return True


def _made(name: str, settings: AttackSettings, limit: int | None, verbose: bool) -> list[Attack]:
    """The attack, or a word on what it lacks."""
    try:
        return make_attacks(name, settings, limit)
    except DataError as problem:
        say(f"left out: {problem}", verbose)
        return []
