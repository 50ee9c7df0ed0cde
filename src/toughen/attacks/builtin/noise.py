"""Noise in texts at several strengths, and the scores of a model on it. No search is made.

A transform takes a text, a strength (the share of places it changes) and a seed. What it changes at one strength it
changes in the same way at every higher strength.
"""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...tasks.spec import DataError, Task
from ..attacked_text import Row, SplitText, split_punctuation
from ..summary import Group, Point
from ..target import AttackScores, Target
from .characters import edit_variants

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
_MOST = 5


def _chosen(rng: random.Random, strength: float) -> bool:
    """Whether this place is changed: its number is drawn once and compared with every strength."""
    return rng.random() < strength


def _by_piece(text: str, strength: float, seed: str, change: Callable[[str, random.Random], str]) -> str:
    words = SplitText.of(text)
    tokens = list(words.tokens)
    for index in words.positions:
        rng = random.Random(f"{seed}/{index}")
        if _chosen(rng, strength):
            tokens[index] = change(tokens[index], rng)
    return words.joined(tokens)


def typos(text: str, strength: float, seed: str) -> str:
    """Make one typing error in a word of two letters or more."""

    def change(piece: str, rng: random.Random) -> str:
        before, word, after = split_punctuation(piece)
        kinds = ["swap", "delete", "insert", "keyboard"]
        rng.shuffle(kinds)
        variants = edit_variants(word, kinds, 1, rng) if len(word) > 1 else []
        return f"{before}{variants[0] if variants else word}{after}"

    return _by_piece(text, strength, seed, change)


def casing(text: str, strength: float, seed: str) -> str:
    """A word in capitals, with a capital, or in small letters where it had one."""

    def change(piece: str, rng: random.Random) -> str:
        forms = dict.fromkeys((piece.upper(), piece.capitalize(), piece.lower(), piece.swapcase()))
        return rng.choice([form for form in forms if form != piece] or [piece])

    return _by_piece(text, strength, seed, change)


def punctuation(text: str, strength: float, seed: str) -> str:
    """A mark behind a word that has none, none behind a word that has one."""

    def change(piece: str, rng: random.Random) -> str:
        before, word, after = split_punctuation(piece)
        return f"{before}{word}" if after else f"{piece}{rng.choice(',.;:!?')}"

    return _by_piece(text, strength, seed, change)


def whitespace(text: str, strength: float, seed: str) -> str:
    """A space too many between two words, or none."""
    words = SplitText.of(text)
    whitespace = list(words.whitespace)
    for index in range(1, len(whitespace) - 1):
        rng = random.Random(f"{seed}/{index}")
        if _chosen(rng, strength):
            whitespace[index] = rng.choice(("", whitespace[index] * 2, f"{whitespace[index]}\t"))
    return SplitText(words.tokens, tuple(whitespace)).joined(words.tokens)


def contractions(text: str, strength: float, seed: str) -> str:
    """`is not` and `isn't`, each for the other."""
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
    """Up to five true sentences that say nothing, behind the text; the number of them is the strength."""
    count = math.ceil(strength * _MOST - 1e-9)
    first = random.Random(seed).randrange(len(_SENTENCES))
    added = [_SENTENCES[(first + number) % len(_SENTENCES)] for number in range(count)]
    return " ".join([text.rstrip(), *added]) if added else text


NOISE_TRANSFORMS: dict[str, Callable[[str, float, str], str]] = {
    "typos": typos,
    "casing": casing,
    "punctuation": punctuation,
    "whitespace": whitespace,
    "contractions": contractions,
    "distractors": distractors,
}


STRENGTHS = (0.1, 0.3, 0.5, 1.0)
UNIT = "share of the places where it can be"
_LAST_TEXT = ("distractors",)  # where the stress test has them: behind the hypothesis
_WORD_BY_WORD = ("typos", "casing")  # what leaves every word its tag


def add_noise(task: Task, row: Row, number: int, kind: str, strength: float, seed: int) -> Row:
    """A row under noise of a kind; which words are hit depends on seed, row and place alone."""
    noisy = dict(row)
    if task.head == "tokens":
        words: list[str] = [str(word) for word in row["tokens"]]
        key = f"{kind}/{seed}/{number}"
        noisy["tokens"] = [
            NOISE_TRANSFORMS[kind](word, strength, f"{key}/{index}") or word for index, word in enumerate(words)
        ]
        return noisy
    columns = [column for column in task.columns if isinstance(row[column], str)]
    for column in columns[-1:] if kind in _LAST_TEXT else columns:
        noisy[column] = NOISE_TRANSFORMS[kind](row[column], strength, f"{kind}/{seed}/{number}/{column}")
    return noisy


def _outside(task: Task) -> int:
    """The tag of words that the model no longer sees: a garbled word has more pieces, and texts are cut at a length."""
    return task.labels.index("O") if "O" in task.labels else 0


@dataclass(frozen=True)
class NoiseAttack:
    """Noise that nobody searched for: the scores a model has on it, by kind and strength."""

    strengths: Sequence[float] = STRENGTHS
    kinds: Sequence[str] = tuple(NOISE_TRANSFORMS)
    seed: int = 0
    name: str = "noise"
    kind: str = "noise"
    title: str = "Noise in the text"
    examples: bool = False

    def __post_init__(self) -> None:
        if not self.strengths or any(not 0 < strength <= 1 for strength in self.strengths):
            raise DataError(f"strengths={list(self.strengths)}: give shares above 0, up to 1.")

    @property
    def settings(self) -> dict[str, Any]:
        return {"strengths": sorted(self.strengths), "noise": list(self.kinds), "unit": UNIT, "seed": self.seed}

    def check(self, task: Task) -> None:
        if not self._kinds(task):
            raise DataError(f"noise {', '.join(self.kinds)} would move the tags of {task.name!r}; use typos or casing.")

    def _kinds(self, task: Task) -> list[str]:
        return [kind for kind in self.kinds if task.head != "tokens" or kind in _WORD_BY_WORD]

    def _conditions(self, task: Task) -> list[tuple[str, float]]:
        return [(kind, strength) for kind in self._kinds(task) for strength in sorted(self.strengths)]

    def cache_key(self, target: Target) -> tuple[()]:
        return ()

    def num_items(self, target: Target) -> int:
        return len(self._conditions(target.task))

    def run_items(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """The answers under one kind and strength after the other; texts that stay as they were are not asked again."""
        conditions = self._conditions(target.task)
        for number in numbers:
            kind, strength = conditions[number]
            rows = [add_noise(target.task, row, i, kind, strength, self.seed) for i, row in enumerate(target.rows)]
            answers: list[Any] = list(target.answers())
            keys = target.victim.key
            hit = [i for i, (old, new) in enumerate(zip(target.rows, rows, strict=True)) if keys(old) != keys(new)]
            lost = 0
            if hit:
                predictions = target.said([rows[i] for i in hit])
                for i, answer in zip(hit, predictions, strict=True):
                    answers[i] = answer
                    if target.task.head == "tokens":
                        count = len(target.labels[i])
                        gone = [_outside(target.task)] * max(0, count - len(answer))
                        # A text cut at its left loses its first words.
                        left = target.victim.tokenizer.truncation_side == "left"
                        whole = [*gone, *answer] if left else [*answer, *gone]
                        answers[i] = whole[len(whole) - count :] if left else whole[:count]
                        lost += len(gone)
            about = {"noise": kind, "strength": strength, "changed": len(hit), "lost": lost}
            yield [{"index": number, **about, "answers": answers}]

    def summarize(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> AttackScores:
        clean = Point(0.0, target.score(target.answers(), target.task.primary_metric))
        groups: list[Group] = []
        outcomes: dict[str, Any] = {}
        for kind in self._kinds(target.task):
            points = [clean]
            for row in rows:
                if row["noise"] == kind:
                    score = target.score(row["answers"], target.task.primary_metric)
                    points.append(Point(row["strength"], score, changed=row["changed"] / len(target.rows)))
                    outcomes[f"{kind} {row['strength']:g}"] = target.outcome(row["answers"], target.task.primary_metric)
            groups.append(Group(kind, points))
        left = [kind for kind in self.kinds if kind not in self._kinds(target.task)]
        notes = [f"left out, because words would lose their tags: {', '.join(left)}"] if left else []
        never = [kind for kind in self._kinds(target.task)
                 if not any(row["changed"] for row in rows if row["noise"] == kind)]  # fmt: skip
        notes += [f"{kind} changed no text: there was no place for it" for kind in never]
        if lost := sum(row.get("lost", 0) for row in rows):
            notes.append(f"{lost} words were pushed out of texts cut at their length, and count as without a tag")
        return AttackScores(outcomes, notes, groups=groups, metric=target.task.primary_metric)
