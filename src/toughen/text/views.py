"""Views of a text: edited copies of token ids, drawn from what the text says and from a key."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .edits import EDITS, OBFUSCATION, TYPOS, edit_variants, random_case
from .synonyms import Synonyms
from .token_words import TokenWords, WrittenWord
from .words import has_digit, is_negation, match_case

FAMILIES = ("typos", "obfuscation", "casing", "synonyms")
TWICE = 0.1  # the share of edited words that get a second typing error
MOST_SYNONYMS = 8  # of a word, the commonest first
TRIES = 3  # an edit may change nothing for the tokenizer, such as a capital letter where all become small


@dataclass(frozen=True)
class View:
    """An edited copy of one row of token ids. The two sources have one entry for each token of the copy."""

    ids: list[int]
    source: list[int]
    """The position that the token comes from; for all tokens of an edited word where the word starts."""
    label_source: list[int]
    """The position whose label the token takes; -1 for none."""
    words: int
    edited: int


@dataclass(frozen=True)
class TextEditor:
    """Makes views. Each text of a row has a share of edited words of its own, drawn from 0 to `rate`.

    Numbers, negations, words of one letter and the words in `kept` stay as they are.
    """

    words: TokenWords
    families: Sequence[str] = ("typos",)
    rate: float = 0.4
    synonyms: Synonyms | None = None
    kept: frozenset[str] = frozenset()

    def view(self, ids: Sequence[int], key: str, longest: int | None = None) -> View:
        """Return a view of a row without padding.

        Draws depend on the key and on the text itself: neither the row's number, nor padding, nor the rows beside it
        change them, and the context that the choices of one question share is edited in the same way for all.
        `longest` tokens are kept, special ones among them; more are cut off the end of the longest text.
        """
        parts = list(self._parts(ids, key))
        texts = [part for part in parts if part.words]
        for _ in range(sum(len(part.ids) for part in parts) - longest if longest is not None else 0):
            if not texts:
                break
            part = max(texts, key=lambda each: len(each.ids))
            for column in (part.ids, part.source, part.label_source):
                del column[-1:]
        return View(
            ids=[number for part in parts for number in part.ids],
            source=[position for part in parts for position in part.source],
            label_source=[position for part in parts for position in part.label_source],
            words=sum(part.words for part in parts),
            edited=sum(part.edited for part in parts),
        )

    def _parts(self, ids: Sequence[int], key: str) -> Iterator[View]:
        """Yield special tokens and the texts between them."""
        start = 0
        while start < len(ids):
            end = start + 1
            if ids[start] in self.words.special:
                yield View([ids[start]], [start], [start], 0, 0)
            else:
                while end < len(ids) and ids[end] not in self.words.special:
                    end += 1
                yield self._text(tuple(ids[start:end]), start, key)
            start = end

    def _text(self, ids: tuple[int, ...], offset: int, key: str) -> View:
        rng = random.Random(f"{key}/{ids}")
        share, family = rng.random() * self.rate, rng.choice(self.families)
        found, source, label_source = list[int](), list[int](), list[int]()
        words = edited = 0
        for start, end in self.words.spans(ids):
            old = ids[start:end]
            written = self.words.read(old)
            words += written is None or bool(written.word)
            new = old
            if written is not None and rng.random() < share and not self._kept(written.word):
                new = self._edited(old, written, family, rng)
            first = offset + start
            found += new
            if new == old:
                source += range(first, offset + end)
                label_source += range(first, offset + end)
                continue
            edited += 1
            # Where later pieces of words have labels of their own, the pieces of the new word take those.
            later = first + 1 if len(old) > 1 else -1
            source += [first] * len(new)
            label_source += [first, *[later] * (len(new) - 1)]
        return View(found, source, label_source, words, edited)

    def _kept(self, word: str) -> bool:
        return len(word) < 2 or word.lower() in self.kept or has_digit(word) or is_negation(word)

    def _edited(self, old: tuple[int, ...], written: WrittenWord, family: str, rng: random.Random) -> tuple[int, ...]:
        """Return other ids for a word; the old ones if no edit changes them."""
        for _ in range(TRIES):
            word = self._edit(written.word, family, rng)
            new = self.words.write(written, word) if word != written.word else old
            if new and new != old:
                return new
        return old

    def _edit(self, word: str, family: str, rng: random.Random) -> str:
        if family == "casing":
            return random_case(word, rng)
        if family == "synonyms":
            others = (self.synonyms or {}).get(word.lower(), [])[:MOST_SYNONYMS]
            return match_case(rng.choice(others), word) if others else word
        kinds = TYPOS if family == "typos" else OBFUSCATION
        word = _one_edit(word, kinds, rng)
        return _one_edit(word, kinds, rng) if rng.random() < TWICE and len(word) > 2 else word


def _one_edit(word: str, kinds: Sequence[str], rng: random.Random) -> str:
    """Return the word after an edit of a random kind, inside it if possible: its first letter is seldom the one."""
    if len(word) > 2:  # most draws end here, which costs a third of what the search below does
        new = EDITS[kinds[int(rng.random() * len(kinds))]](word, 1 + int(rng.random() * (len(word) - 2)), rng)
        if new != word:
            return new
    order = list(kinds)
    rng.shuffle(order)
    results = (edit_variants(word, [kind], 1, rng) for kind in order)
    return next((found[0] for found in results if found), word)
