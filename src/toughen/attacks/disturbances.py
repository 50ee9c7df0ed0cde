"""Kinds of noise. Seeded and nested: what is changed at one strength is changed alike at every higher one.

Each takes a text, a strength (the share of the places it could be at) and a seed.
"""

import math
import random
import re
from collections.abc import Callable

from .characters import edited
from .words import Words, parts

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


def _chosen(dice: random.Random, strength: float) -> bool:
    """Whether this place is changed: its number is drawn once and compared with every strength."""
    return dice.random() < strength


def _by_piece(text: str, strength: float, seed: str, change: Callable[[str, random.Random], str]) -> str:
    words = Words.of(text)
    pieces = list(words.pieces)
    for place in words.places:
        dice = random.Random(f"{seed}/{place}")
        if _chosen(dice, strength):
            pieces[place] = change(pieces[place], dice)
    return words.joined(pieces)


def typos(text: str, strength: float, seed: str) -> str:
    """One slip of the finger in a word of two letters or more."""

    def change(piece: str, dice: random.Random) -> str:
        before, word, after = parts(piece)
        kinds = ["swap", "delete", "insert", "keyboard"]
        dice.shuffle(kinds)
        slips = edited(word, kinds, 1, dice) if len(word) > 1 else []
        return f"{before}{slips[0] if slips else word}{after}"

    return _by_piece(text, strength, seed, change)


def casing(text: str, strength: float, seed: str) -> str:
    """A word in capitals, with a capital, or in small letters where it had one."""

    def change(piece: str, dice: random.Random) -> str:
        forms = dict.fromkeys((piece.upper(), piece.capitalize(), piece.lower(), piece.swapcase()))
        return dice.choice([form for form in forms if form != piece] or [piece])

    return _by_piece(text, strength, seed, change)


def punctuation(text: str, strength: float, seed: str) -> str:
    """A mark behind a word that has none, none behind a word that has one."""

    def change(piece: str, dice: random.Random) -> str:
        before, word, after = parts(piece)
        return f"{before}{word}" if after else f"{piece}{dice.choice(',.;:!?')}"

    return _by_piece(text, strength, seed, change)


def whitespace(text: str, strength: float, seed: str) -> str:
    """A space too many between two words, or none."""
    words = Words.of(text)
    gaps = list(words.gaps)
    for place in range(1, len(gaps) - 1):
        dice = random.Random(f"{seed}/{place}")
        if _chosen(dice, strength):
            gaps[place] = dice.choice(("", gaps[place] * 2, f"{gaps[place]}\t"))
    return Words(words.pieces, tuple(gaps)).joined(words.pieces)


def contractions(text: str, strength: float, seed: str) -> str:
    """`is not` and `isn't`, each for the other."""
    count = iter(range(len(text)))

    def change(found: "re.Match[str]") -> str:
        old = found[0]
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


KINDS: dict[str, Callable[[str, float, str], str]] = {
    "typos": typos,
    "casing": casing,
    "punctuation": punctuation,
    "whitespace": whitespace,
    "contractions": contractions,
    "distractors": distractors,
}
