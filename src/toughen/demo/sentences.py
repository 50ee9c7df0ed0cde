"""Made-up reviews from a grammar, for a first training and for examples."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Row = dict[str, str]
LABELS = ("negative", "positive")
_GRAMMAR: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("grammar.yaml").read_text(encoding="utf-8"))
THINGS: Sequence[str] = _GRAMMAR["things"]
DEGREES: Sequence[str] = _GRAMMAR["degrees"]


@dataclass(frozen=True)
class Lexicon:
    """Words of praise and blame, and denials."""

    good: Sequence[str]
    bad: Sequence[str]
    liked: Sequence[str]
    hated: Sequence[str]
    denials: Sequence[str]


SEEN = Lexicon(**_GRAMMAR["seen"])
VOCABULARY = (*THINGS, *SEEN.good, *SEEN.bad, *SEEN.liked, *SEEN.hated, *DEGREES, *_GRAMMAR["other_words"])


def sentence(rng: random.Random, liked: bool, denied: float = 0.15) -> str:
    """Return one opinion; with probability `denied` it is said by denying the opposite."""
    thing = rng.choice(THINGS)
    if rng.random() < denied:
        word = rng.choice(SEEN.bad if liked else SEEN.good)
        return f"the {thing} was {rng.choice(SEEN.denials)} {word}"
    word, degree = rng.choice(SEEN.good if liked else SEEN.bad), rng.choice(DEGREES)
    verb = rng.choice(SEEN.liked if liked else SEEN.hated)
    return rng.choice(_GRAMMAR["opinions"]).format(thing=thing, word=word, degree=degree, verb=verb)


def rows(count: int, seed: str, wrong: float = 0.0) -> list[Row]:
    """Return rows of both classes in turn, no text twice; a share of `wrong` has the other label."""
    if count > MAX_ROWS:
        raise ValueError(f"rows={count}: the grammar has no more than {MAX_ROWS} different reviews.")
    rng = random.Random(seed)
    texts: dict[str, bool] = {}
    while len(texts) < count:
        liked = len(texts) % 2 == 1
        texts.setdefault(sentence(rng, liked), liked)
    flipped = set(rng.sample(range(count), round(wrong * count)))
    return [
        {"text": text, "label": LABELS[liked != (number in flipped)]}
        for number, (text, liked) in enumerate(texts.items())
    ]


MAX_ROWS = 5000  # the grammar makes about 3000 sentences of each class
