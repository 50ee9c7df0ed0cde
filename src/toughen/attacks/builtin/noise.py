"""Noise in texts at several strengths, without any search.

A transform takes a text, a strength (the share of positions it changes) and a seed. What it changes at one strength it
changes in the same way at every higher strength.
"""

import math
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import count_of
from ...tasks.spec import DataError, Task
from ...text.edits import OBFUSCATION, TYPOS, random_case, random_edit
from ...text.synonyms import Misspellings, load_misspellings
from ...text.words import SplitText, match_case, split_punctuation
from ..base import Attack, AttackScores, ChangedRow, Outcome, Record, Row, option, register_attack
from ..runner import digest
from ..summary import Group, Point

if TYPE_CHECKING:
    from ..target import Target

_SHORT = {
    **{f"{verb} not": f"{verb}n't" for verb in ("is", "are", "was", "were", "do", "does", "did", "has", "have", "had")},
    **{f"{verb} not": f"{verb}n't" for verb in ("would", "could", "should")},
    "can not": "can't",
    "cannot": "can't",
    "will not": "won't",
    "it is": "it's",
    "that is": "that's",
    "there is": "there's",
    "i am": "i'm",
    "you are": "you're",
    "they are": "they're",
    "we are": "we're",
    "i have": "i've",
    "they have": "they've",
    "i will": "i'll",
    "you will": "you'll",
}
_JOINED = {short: long for long, short in _SHORT.items() if long != "cannot"}
# The Penn Treebank writes them apart (SST-2 does): "is n't", "it 's".
_LONG = _JOINED | {re.sub(r"(n't|'\w+)$", r" \1", short): long for short, long in _JOINED.items()}
_KNOWN = sorted({*_SHORT, *_LONG}, key=lambda form: (-len(form), form))
_FORMS = re.compile(rf"\b({'|'.join(map(re.escape, _KNOWN))})\b", re.IGNORECASE)
# The tautologies of the MNLI stress test (Naik et al. 2018): one more word overlap, one more negation.
_SENTENCES = ("and true is true", "and false is not true")
_MAX_SENTENCES = 5
Transform: TypeAlias = Callable[[str, float, str], str]


def _chosen(rng: random.Random, strength: float) -> bool:
    """Return whether a position is changed: its number is drawn once and compared with every strength."""
    return rng.random() < strength


def _each_word(change: Callable[[str, random.Random], str]) -> Transform:
    """Return the transform that changes words one by one."""

    def transform(text: str, strength: float, seed: str) -> str:
        words = SplitText.of(text)
        tokens = list(words.tokens)
        for index in words.positions:
            rng = random.Random(f"{seed}/{index}")
            if _chosen(rng, strength):
                tokens[index] = change(tokens[index], rng)
        return words.joined(tokens)

    return transform


def _typo(word: str, rng: random.Random) -> str:
    """Make one typing error in a word of two letters or more."""
    return random_edit(word, TYPOS, rng) if len(word) > 1 else word


def _inside(change: Callable[[str, random.Random], str]) -> Callable[[str, random.Random], str]:
    """Return the change of a token that leaves the punctuation around its word alone."""

    def changed(token: str, rng: random.Random) -> str:
        before, word, after = split_punctuation(token)
        return f"{before}{change(word, rng)}{after}"

    return changed


def misspell(misspellings: Misspellings) -> Transform:
    """Return the transform that writes words as people have misspelt them; a word without misspellings stays."""

    def change(word: str, rng: random.Random) -> str:
        others = misspellings.get(word.lower())
        return match_case(rng.choice(others), word) if others else word

    return _each_word(_inside(change))


def _punctuation(token: str, rng: random.Random) -> str:
    """Add a mark after a word that has none, and remove the marks after a word that has some."""
    before, word, after = split_punctuation(token)
    return f"{before}{word}" if after else f"{token}{rng.choice(',.;:!?')}"


def whitespace(text: str, strength: float, seed: str) -> str:
    """Double the space between two words, or remove it."""
    words = SplitText.of(text)
    whitespace = list(words.whitespace)
    for index in range(1, len(whitespace) - 1):
        rng = random.Random(f"{seed}/{index}")
        if _chosen(rng, strength):
            whitespace[index] = rng.choice(("", whitespace[index] * 2, f"{whitespace[index]}\t"))
    return SplitText(words.tokens, tuple(whitespace)).joined(words.tokens)


def contractions(text: str, strength: float, seed: str) -> str:
    """Replace `is not` by `isn't` and the other way round."""
    count = iter(range(len(text)))

    def change(match: "re.Match[str]") -> str:
        old = match[0]
        if not _chosen(random.Random(f"{seed}/{next(count)}"), strength):
            return old
        # Without regard to case an i is a dotless one as well, which no form has when it is made small.
        new = _SHORT.get(old.lower()) or _LONG.get(old.lower(), old)
        return new[:1].upper() + new[1:] if old[:1].isupper() else new

    return _FORMS.sub(change, text)


def distractors(text: str, strength: float, seed: str) -> str:
    """Add up to five true sentences that say nothing after the text; their number is the strength."""
    count = math.ceil(strength * _MAX_SENTENCES - 1e-9)
    first = random.Random(seed).randrange(len(_SENTENCES))
    added = [_SENTENCES[(first + number) % len(_SENTENCES)] for number in range(count)]
    return " ".join([text.rstrip(), *added]) if added else text


NOISE_TRANSFORMS: dict[str, Transform] = {
    "typos": _each_word(_inside(_typo)),
    "casing": _each_word(random_case),
    "obfuscation": _each_word(_inside(lambda word, rng: random_edit(word, OBFUSCATION, rng))),
    "punctuation": _each_word(_punctuation),
    "whitespace": whitespace,
    "contractions": contractions,
    "distractors": distractors,
}


UNIT = "share of the places where it can be"  # as summaries have had it from the first version on
_LAST_TEXT = ("distractors",)  # where the stress test has them: after the hypothesis
_MISSPELLINGS = "misspellings"
_KINDS = (*NOISE_TRANSFORMS, _MISSPELLINGS)
_KEEP_TAGS = ("typos", "casing", "obfuscation", _MISSPELLINGS)  # every word keeps its tag


def add_noise(
    task: Task, row: Row, number: int, kind: str, strength: float, seed: int, misspellings: Misspellings | None = None
) -> Row:
    """Return a row under noise of a kind; which words change depends on seed, row and position alone."""
    noisy, transform = dict(row), misspell(misspellings or {}) if kind == _MISSPELLINGS else NOISE_TRANSFORMS[kind]
    if task.head == "tokens":
        words = enumerate(map(str, row["tokens"]))
        noisy["tokens"] = [transform(word, strength, f"{kind}/{seed}/{number}/{i}") or word for i, word in words]
        return noisy
    columns = [column for column in task.columns if isinstance(row[column], str)]
    for column in columns[-1:] if kind in _LAST_TEXT else columns:
        noisy[column] = transform(row[column], strength, f"{kind}/{seed}/{number}/{column}")
    return noisy


def _fit_tags(target: "Target", answer: list[int], count: int) -> list[int]:
    """Return exactly `count` tags: words with typos have more tokens, so that fewer words fit into a cut text."""
    outside = target.task.labels.index("O") if "O" in target.task.labels else 0
    missing = [outside] * max(0, count - len(answer))
    if target.white_box.tokenizer.truncation_side == "left":  # a text cut at its left loses its first words
        return [*missing, *answer][max(0, len(answer) - count) :]
    return [*answer, *missing][:count]


@register_attack("noise")
@dataclass(frozen=True)
class NoiseAttack(Attack):
    """Typos, casing, obfuscation, punctuation, white space, contractions and more, at several strengths."""

    title = "Noise in the text"

    strengths: Sequence[float] = (0.1, 0.3, 0.5, 1.0)
    """Strengths of noise: shares of the positions where it can be."""
    noise: Sequence[str] = option(tuple(NOISE_TRANSFORMS), choices=_KINDS)
    """typos, casing, obfuscation, punctuation, whitespace, contractions, distractors; with a lexicon: misspellings."""
    seed: int = 0
    """Seed of everything that is drawn."""
    lexicon: "str | os.PathLike[str] | None" = None
    """Text file, also as .gz, with a word and its misspellings in each line."""
    table: Misspellings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "table", load_misspellings(self.lexicon)[0] if _MISSPELLINGS in self.noise else {})
        if not self.strengths or any(not 0 < strength <= 1 for strength in self.strengths):
            raise DataError(f"strengths={list(self.strengths)}: give shares above 0, up to 1.")

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings | {"strengths": sorted(self.strengths), "unit": UNIT}
        return settings | {"lexicon": digest(self.table) if self.table else None}

    def check(self, task: Task) -> None:
        if not self._kinds(task):
            raise DataError(
                f"noise {', '.join(self.noise)} would break the tags of {task.name!r}; use {', '.join(_KEEP_TAGS)}."
            )

    def _kinds(self, task: Task) -> list[str]:
        return [kind for kind in self.noise if task.head != "tokens" or kind in _KEEP_TAGS]

    def _conditions(self, task: Task) -> list[tuple[str, float]]:
        return [(kind, strength) for kind in self._kinds(task) for strength in sorted(self.strengths)]

    def num_items(self, target: "Target") -> int:
        return len(self._conditions(target.task))

    def run_items(self, target: "Target", numbers: Sequence[int]) -> Iterator[list[Record]]:
        """Yield the answers under one kind and strength after the other; only changed texts are put to the model."""
        from ..target import predict

        conditions, key = self._conditions(target.task), target.victim.key
        for number in numbers:
            kind, strength = conditions[number]
            rows = [
                add_noise(target.task, row, i, kind, strength, self.seed, self.table)
                for i, row in enumerate(target.rows)
            ]
            changed = [i for i, (old, new) in enumerate(zip(target.rows, rows, strict=True)) if key(old) != key(new)]
            answers, lost = list(target.answers()), 0
            predictions = predict(target.victim, [rows[i] for i in changed]) if changed else ()
            for i, answer in zip(changed, predictions, strict=True):
                if target.task.head == "tokens":
                    count = len(target.labels[i])
                    lost += max(0, count - len(answer))
                    answer = _fit_tags(target, answer, count)
                answers[i] = answer
            about = {"noise": kind, "strength": strength, "changed": len(changed), "lost": lost}
            yield [{"index": number, **about, "answers": answers}]

    def summarize(self, target: "Target", records: Sequence[Record]) -> AttackScores:
        metric, kinds = target.task.primary_metric, self._kinds(target.task)
        clean = Point(0.0, target.score(target.answers(), metric))
        points = {kind: [clean] for kind in kinds}
        outcomes: dict[str, Outcome] = {}
        for row in records:
            kind, strength, answers = row["noise"], row["strength"], row["answers"]
            changed = row["changed"] / len(target.rows)
            points[kind].append(Point(strength, target.score(answers, metric), changed=changed))
            outcomes[f"{kind} {strength:g}"] = target.outcome(answers, metric)
        notes: list[str] = []
        if left := [kind for kind in self.noise if kind not in kinds]:
            notes.append(f"left out, because words would lose their tags: {', '.join(left)}")
        unchanged = [kind for kind in kinds if not any(point.changed for point in points[kind])]
        notes += [f"{kind} changed no text: there was no place for it" for kind in unchanged]
        if lost := sum(row.get("lost", 0) for row in records):
            notes.append(f"{count_of(lost, 'word')} moved behind the cut of a long text, and counted as untagged")
        return AttackScores(outcomes, notes, groups=[Group(*each) for each in points.items()], metric=metric)

    def changed_rows(self, target: "Target", records: Sequence[Record]) -> list[ChangedRow]:
        """Return the rows under the last kind at the highest strength."""
        last = records[-1]
        return [
            ChangedRow(
                i, add_noise(target.task, row, i, last["noise"], last["strength"], self.seed, self.table), answer
            )
            for i, (row, answer) in enumerate(zip(target.rows, last["answers"], strict=True))
        ]
