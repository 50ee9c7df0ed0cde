"""A small sentiment set from a grammar: training rows, and splits that test robustness."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

Row = dict[str, str]
LABELS = ("negative", "positive")
MAX_ROWS = 5000  # training rows: of the sentences of each class, about 3000, a test split needs some that were not seen
_GRAMMAR: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("grammar.yaml").read_text(encoding="utf-8"))
SPLITS: Mapping[str, str] = _GRAMMAR["splits"]
THINGS: Sequence[str] = _GRAMMAR["things"]
DEGREES: Sequence[str] = _GRAMMAR["degrees"]


@dataclass(frozen=True)
class Lexicon:
    """The part of the vocabulary that a split may use."""

    good: Sequence[str]
    bad: Sequence[str]
    liked: Sequence[str]
    hated: Sequence[str]
    denials: Sequence[str]


SEEN, UNSEEN = Lexicon(**_GRAMMAR["seen"]), Lexicon(**_GRAMMAR["new"])
VOCABULARY = (*THINGS, *SEEN.good, *SEEN.bad, *SEEN.liked, *SEEN.hated, *DEGREES, *_GRAMMAR["other_words"])


def sentence(rng: random.Random, liked: bool, lexicon: Lexicon, denied: float) -> str:
    """Return one opinion; with probability `denied` it is said by denying the opposite."""
    thing = rng.choice(THINGS)
    if rng.random() < denied:
        word = rng.choice(lexicon.bad if liked else lexicon.good)
        return f"the {thing} was {rng.choice(lexicon.denials)} {word}"
    word, degree = rng.choice(lexicon.good if liked else lexicon.bad), rng.choice(DEGREES)
    verb = rng.choice(lexicon.liked if liked else lexicon.hated)
    return rng.choice(_GRAMMAR["opinions"]).format(thing=thing, word=word, degree=degree, verb=verb)


def longer(rng: random.Random, text: str, liked: bool) -> str:
    """Put the opinion in the middle of words that say nothing about it."""
    return f"{rng.choice(_GRAMMAR['openings'])} {text}{rng.choice(_GRAMMAR['endings'])}"


def distracted(rng: random.Random, text: str, liked: bool) -> str:
    """Put a feeling of the other kind in front, about something that is not judged."""
    aside = rng.choice(_GRAMMAR["asides"])
    return f"{aside.format(other=rng.choice(SEEN.bad if liked else SEEN.good))} {text}"


def mistyped(rng: random.Random, text: str, liked: bool) -> str:
    """Make one slip in every word of four letters or more: two letters swapped, one lost or one doubled."""
    return " ".join(_slip(rng, word) if len(word) > 3 else word for word in text.split())


def _slip(rng: random.Random, word: str) -> str:
    at = rng.randrange(1, len(word) - 2)
    # Short words lose no letter (good would be god), and two letters that are the same are not swapped.
    kind = rng.choice(("swap", "drop", "double") if len(word) > 4 else ("swap", "double"))
    if kind == "swap" and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + (word[at + 1 :] if kind == "drop" else word[at] + word[at:])


def rows(
    count: int,
    seed: str,
    lexicon: Lexicon = SEEN,
    denied: float = 0.15,
    change: Callable[[random.Random, str, bool], str] | None = None,
    wrong: float = 0.0,
    without: Sequence[Row] = (),
) -> list[Row]:
    """Return rows of both classes in turn, no text twice, none of `without`; a share of `wrong` has the other label."""
    rng = random.Random(seed)
    texts: dict[str, bool] = {}
    known = {row["text"] for row in without}
    while len(texts) < count:
        liked = len(texts) % 2 == 1
        text = sentence(rng, liked, lexicon, denied)
        changed = change(rng, text, liked) if change else text
        if changed not in known and (change is None or changed != text):
            texts.setdefault(changed, liked)
    flipped = set(rng.sample(range(count), round(wrong * count)))
    return [
        {"text": text, "label": LABELS[liked != (number in flipped)]}
        for number, (text, liked) in enumerate(texts.items())
    ]


def make_splits(seed: int = 0, train: int = 320, test: int = 200, wrong: float = 0.1) -> dict[str, list[Row]]:
    """Return all splits by name. A tenth of the training labels are wrong, as in data labelled in a hurry."""
    seen = rows(train, f"train {seed}", wrong=wrong)
    return {
        "train": seen,
        "clean": rows(test, f"clean {seed}", without=seen),
        "new words": rows(test, f"words {seed}", replace(UNSEEN, denials=SEEN.denials)),
        "negation": rows(test, f"negation {seed}", replace(SEEN, denials=UNSEEN.denials), denied=1.0),
        "typos": rows(test, f"typos {seed}", change=mistyped),
        "longer": rows(test, f"longer {seed}", change=longer),
        "distractors": rows(test, f"distractors {seed}", change=distracted),
    }
