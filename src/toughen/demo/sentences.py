"""A small sentiment set from a grammar: training rows, and splits that test robustness."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Row = dict[str, str]
LABELS = ("negative", "positive")
MAX_ROWS = 5000  # training rows: of the sentences of each class, about 3000, a test split needs some that were not seen
SPLITS = {
    "clean": "the same grammar, other sentences",
    "new words": "words of praise and blame that were never seen in training",
    "negation": "denials that were never seen in training: hardly, far from, anything but",
    "typos": "a slip in every word of four letters or more: two swapped, one lost or one doubled",
    "longer": "the same opinion inside a sentence three times as long",
    "distractors": "a feeling about something else comes first",
}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


THINGS = _words(
    "soup lamp hotel jacket phone film bakery train guide garden song blanket printer museum app kettle novel bicycle "
    "teacher campsite camera sofa ferry salad"
)
GOOD = _words("good great excellent lovely pleasant delightful impressive comfortable reliable charming")
BAD = _words("bad terrible awful poor unpleasant dreadful disappointing uncomfortable unreliable dull")
LIKED = _words("loved enjoyed adored")
HATED = _words("hated disliked regretted")
DEGREES = _words("really quite very truly rather")
VOCABULARY = (
    *(*THINGS, *GOOD, *BAD, *LIKED, *HATED, *DEGREES),
    *_words("the was not i found a from start to end we everyone at table this"),
)

# Never seen in training.
NEW_GOOD = _words("superb wonderful splendid brilliant fantastic marvellous outstanding exquisite")
NEW_BAD = _words("horrible lousy atrocious mediocre appalling pathetic abysmal wretched")
NEW_LIKED = _words("cherished treasured praised")
NEW_HATED = _words("despised detested resented")

DENIALS = ("not",)
NEW_DENIALS = ("hardly", "never", "far from", "by no means", "anything but")

OPENINGS = (
    "after three weeks of use i can say that",
    "as i told my sister on the phone yesterday,",
    "we arrived late on a tuesday with two bags and a map, and",
    "for the price they ask in the shop around the corner,",
    "i read the small print twice before i bought it, and",
)
ENDINGS = (
    ", and that is all there is to say about the matter",
    ", at least on the two days when we were there",
    ", which is what i wrote on the card by the door",
    ", even though the box was larger than i had thought",
)
# The label follows the thing that is judged, not this one.
ASIDES = (
    "it was a {other} day outside .",
    "my neighbour had a {other} week .",
    "the news that morning was {other} .",
    "the road there was {other} .",
)


@dataclass(frozen=True)
class Lexicon:
    """The part of the vocabulary that a split may use."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    liked: tuple[str, ...]
    hated: tuple[str, ...]
    denials: tuple[str, ...]


SEEN = Lexicon(GOOD, BAD, LIKED, HATED, DENIALS)
NEW = Lexicon(NEW_GOOD, NEW_BAD, NEW_LIKED, NEW_HATED, DENIALS)
DENIED = Lexicon(GOOD, BAD, LIKED, HATED, NEW_DENIALS)


def sentence(rng: random.Random, liked: bool, lexicon: Lexicon, denied: float) -> str:
    """Return one opinion; with probability `denied` it is said by denying the opposite."""
    thing = rng.choice(THINGS)
    if rng.random() < denied:
        word = rng.choice(lexicon.bad if liked else lexicon.good)
        return f"the {thing} was {rng.choice(lexicon.denials)} {word}"
    word, degree = rng.choice(lexicon.good if liked else lexicon.bad), rng.choice(DEGREES)
    verb = rng.choice(lexicon.liked if liked else lexicon.hated)
    return rng.choice(
        (
            f"the {thing} was {degree} {word}",
            f"i found the {thing} {word}",
            f"a {degree} {word} {thing} from start to end",
            f"we {verb} the {thing}",
            f"everyone at the table {verb} this {thing}",
        )
    )


def longer(rng: random.Random, text: str, liked: bool) -> str:
    """Put the opinion in the middle of words that say nothing about it."""
    return f"{rng.choice(OPENINGS)} {text}{rng.choice(ENDINGS)}"


def distracted(rng: random.Random, text: str, liked: bool) -> str:
    """Put a feeling of the other kind in front, about something that is not judged."""
    return f"{rng.choice(ASIDES).format(other=rng.choice(BAD if liked else GOOD))} {text}"


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
        "new words": rows(test, f"words {seed}", NEW),
        "negation": rows(test, f"negation {seed}", DENIED, denied=1.0),
        "typos": rows(test, f"typos {seed}", change=mistyped),
        "longer": rows(test, f"longer {seed}", change=longer),
        "distractors": rows(test, f"distractors {seed}", change=distracted),
    }
