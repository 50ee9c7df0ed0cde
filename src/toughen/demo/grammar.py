"""A small sentiment set from a grammar of our own: train and development rows, and splits that test robustness."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import words

Row = dict[str, str]
LABELS = ("negative", "positive")
MOST = 5000  # training rows: of the sentences of each class, about 3000, a test split needs some that were not seen
SPLITS = {
    "clean": "the same grammar, other sentences",
    "new words": "words of praise and blame that were never seen in training",
    "negation": "denials that were never seen in training: hardly, far from, anything but",
    "typos": "a slip in every word of four letters or more: two swapped, one lost or one doubled",
    "longer": "the same opinion inside a sentence three times as long",
    "distractors": "a feeling about something else comes first",
}


@dataclass(frozen=True)
class Words:
    """The part of the vocabulary that a split may use."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    liked: tuple[str, ...]
    hated: tuple[str, ...]
    denials: tuple[str, ...]


SEEN = Words(words.GOOD, words.BAD, words.LIKED, words.HATED, words.DENIALS)
NEW = Words(words.NEW_GOOD, words.NEW_BAD, words.NEW_LIKED, words.NEW_HATED, words.DENIALS)
DENIED = Words(words.GOOD, words.BAD, words.LIKED, words.HATED, words.NEW_DENIALS)


def sentence(dice: random.Random, liked: bool, lexicon: Words, denied: float) -> str:
    """One opinion; with probability `denied` it is said by denying the opposite."""
    thing = dice.choice(words.THINGS)
    if dice.random() < denied:
        word = dice.choice(lexicon.bad if liked else lexicon.good)
        return f"the {thing} was {dice.choice(lexicon.denials)} {word}"
    word, degree = dice.choice(lexicon.good if liked else lexicon.bad), dice.choice(words.DEGREES)
    verb = dice.choice(lexicon.liked if liked else lexicon.hated)
    return dice.choice(
        (
            f"the {thing} was {degree} {word}",
            f"i found the {thing} {word}",
            f"a {degree} {word} {thing} from start to end",
            f"we {verb} the {thing}",
            f"everyone at the table {verb} this {thing}",
        )
    )


def longer(dice: random.Random, text: str, liked: bool) -> str:
    """The opinion in the middle of words that say nothing about it."""
    return f"{dice.choice(words.OPENINGS)} {text}{dice.choice(words.ENDINGS)}"


def distracted(dice: random.Random, text: str, liked: bool) -> str:
    """A feeling of the other kind, about something that is not judged."""
    return f"{dice.choice(words.ASIDES).format(other=dice.choice(words.BAD if liked else words.GOOD))} {text}"


def mistyped(dice: random.Random, text: str, liked: bool) -> str:
    """Every word of four letters or more gets one slip inside it: two letters swapped, one lost or one doubled."""
    return " ".join(_slip(dice, word) if len(word) > 3 else word for word in text.split())


def _slip(dice: random.Random, word: str) -> str:
    at = dice.randrange(1, len(word) - 2)
    # Short words lose no letter (good would be god), and two letters that are the same are not swapped.
    kind = dice.choice(("swap", "drop", "double") if len(word) > 4 else ("swap", "double"))
    if kind == "swap" and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + (word[at + 1 :] if kind == "drop" else word[at] + word[at:])


def rows(
    count: int,
    seed: str,
    lexicon: Words = SEEN,
    denied: float = 0.15,
    change: Callable[[random.Random, str, bool], str] | None = None,
    wrong: float = 0.0,
    without: Sequence[Row] = (),
) -> list[Row]:
    """Rows of both classes in turn, no text twice and none of `without`; `wrong` is the share with the other label."""
    dice = random.Random(seed)
    found: dict[str, bool] = {}
    known = {row["text"] for row in without}
    while len(found) < count:
        liked = len(found) % 2 == 1
        text = sentence(dice, liked, lexicon, denied)
        changed = change(dice, text, liked) if change else text
        if changed not in known and (change is None or changed != text):
            found.setdefault(changed, liked)
    flipped = set(dice.sample(range(count), round(wrong * count)))
    return [
        {"text": text, "label": LABELS[liked != (place in flipped)]}
        for place, (text, liked) in enumerate(found.items())
    ]


def make(seed: int = 0, train: int = 320, test: int = 200, wrong: float = 0.1) -> dict[str, list[Row]]:
    """All splits by name. A tenth of the training labels are wrong, as in data that people labelled in a hurry."""
    seen = rows(train, f"train {seed}", wrong=wrong)
    return {
        "train": seen,
        "clean": rows(test, f"clean {seed}", without=seen),
        "new words": rows(test, f"words {seed}", NEW),
        "negation": rows(test, f"negation {seed}", DENIED, denied=1.0),
        "typos": rows(test, f"typos {seed}", change=mistyped),
        "longer": rows(test, f"longer {seed}", change=longer),
        "distractors": rows(test, f"distractors {seed}", change=distracted),
    }
