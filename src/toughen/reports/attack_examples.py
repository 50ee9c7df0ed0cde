"""Attacked examples to read, with the words that changed marked; few enough for a page, evenly taken from all."""

import difflib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from .attacks import Attack
from .folder import Run

MOST, BYTES, LONGEST = 240, 240_000, 700  # examples and their bytes on a page; letters of a text
STATUSES = {"succeeded": "fooled", "failed": "held", "skipped": "wrong already"}
_SHARES = {"succeeded": 0.7, "failed": 0.2, "skipped": 0.1}  # the model's failures are what a reader looks for
Marked = Sequence[tuple[str, bool]]  # pieces of a text, and whether each is marked


@dataclass(frozen=True)
class TextPair:
    """One column before and after: what the attack took away, and what it put there."""

    column: str
    before: Marked
    after: Marked = ()
    same: bool = True
    only_spaces: bool = False
    """Whether nothing changed that a page would show."""


@dataclass(frozen=True)
class Example:
    """One attacked row as the page shows it."""

    model: str
    attack: str
    index: Any
    status: str
    label: str
    before: str
    after: str
    queries: Any
    texts: Sequence[TextPair]

    @property
    def size(self) -> int:
        """About how many bytes it takes on a page, with the tags around it."""
        pieces = (piece for text in self.texts for piece in (*text.before, *text.after))
        return 450 + sum(len(html.escape(words)) + 24 * marked for words, marked in pieces)


def attack_examples(sources: Sequence[tuple[str, Run, Attack]]) -> tuple[list[Example], int]:
    """Choose examples of every attack that kept some, and count all; `sources` name model, run and attack."""
    with_rows = [(name, attack, rows) for name, run, attack in sources if (rows := run.attacked_rows(attack))]
    quota, room = max(3, MOST // max(1, len(with_rows))), BYTES // max(1, len(with_rows))
    shown: list[Example] = []
    for name, attack, rows in with_rows[: MOST // 3]:
        chosen = [_example(row, name, attack.title) for row in _chosen(rows, quota)]
        size = sum(each.size for each in chosen)
        if size > room:  # long texts: fewer of them, of every outcome
            fewer = max(3, quota * room // size)
            chosen = [_example(row, name, attack.title) for row in _chosen(rows, fewer)]
        shown += chosen
    return shown, sum(len(rows) for _, _, rows in with_rows)


def _chosen(rows: Sequence[Mapping[str, Any]], quota: int) -> list[Mapping[str, Any]]:
    """Choose rows of every status at even distances: none crowds out the others, and the same rows every time."""
    by_status = {status: [row for row in rows if row.get("status") == status] for status in STATUSES}
    room = {status: min(len(by_status[status]), max(1, round(quota * _SHARES[status]))) for status in STATUSES}
    room["succeeded"] = min(len(by_status["succeeded"]), quota - room["failed"] - room["skipped"])
    return [each[index * len(each) // room[s]] for s, each in by_status.items() for index in range(room[s])]


def _example(row: Mapping[str, Any], model: str, attack: str) -> Example:
    original, perturbed = row.get("original") or {}, row.get("perturbed") or {}
    changed: dict[str, set[int]] = {}
    for column, index in row.get("changed") or ():
        changed.setdefault(str(column), set()).add(int(index))
    return Example(
        model,
        attack,
        row.get("index", ""),
        STATUSES.get(str(row.get("status")), ""),
        str(row.get("label", "")),
        _answer(row, "before"),
        _answer(row, "after"),
        row.get("queries"),
        [_pair(str(c), str(text), str(perturbed.get(c, text)), changed.get(c, set())) for c, text in original.items()],
    )


def _answer(row: Mapping[str, Any], when: str) -> str:
    """Return the answer and the probability of the true label, which is named if the answer is another."""
    answer, probability = row.get(f"prediction_{when}"), row.get(f"probability_{when}")
    if answer is None:
        return ""
    if not isinstance(probability, (int, float)):
        return str(answer)
    label = row.get("label")
    return f"{answer} {probability:.2f}" if answer == label else f"{answer} ({label} {probability:.2f})"


def _pair(column: str, before: str, after: str, changed: set[int]) -> TextPair:
    if before == after:
        return TextPair(column, _pieces(before, set()))
    removed, added = _differences(before.split(), after.split())
    added = added | changed
    return TextPair(column, _pieces(before, removed), _pieces(after, added), False, not removed and not added)


def _differences(old: Sequence[str], new: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return which words of the one are not in the other, by their numbers."""
    if len(old) == len(new):  # words replace words
        replaced = {number for number, (a, b) in enumerate(zip(old, new, strict=True)) if a != b}
        return replaced, replaced
    first = same_start(old, new)
    last = same_start(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    removed, added = set(range(first, first + len(old))), set(range(first, first + len(new)))
    if max(len(old), len(new)) <= 300:  # what matches between first and last change; slow for more
        for a, c, size in difflib.SequenceMatcher(None, old, new, False).get_matching_blocks():
            removed -= set(range(first + a, first + a + size))
            added -= set(range(first + c, first + c + size))
    return removed, added


def same_start(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(old), len(new)))


def _pieces(text: str, marked: set[int]) -> Marked:
    """Cut the text where the marking changes; of a long text keep the words around the marked ones."""
    pieces = groupby(_words(text, marked), key=itemgetter(1))
    return [("".join(words for words, _ in each), state) for state, each in pieces]


def _words(text: str, marked: set[int]) -> Iterator[tuple[str, bool]]:
    words = [(word.group(), number in marked) for number, word in enumerate(re.finditer(r"\S+", text))]
    kept: Sequence[int] = range(len(words))
    if any(state for _, state in words) and sum(len(word) + 1 for word, _ in words) > LONGEST:
        near = (range(max(0, n - 12), min(len(words), n + 13)) for n, (_, state) in enumerate(words) if state)
        kept = sorted({number for each in near for number in each})
    length, last = 0, -1
    for number in kept:
        word, state = words[number]
        if number > last + 1:
            yield (" … " if last >= 0 else "… "), False
        elif last >= 0:
            # A blank between two marked words is marked with them.
            yield " ", state and words[last][1]
        yield word[:LONGEST], state
        length, last = length + len(word) + 1, number
        if length > LONGEST:
            break
    if last < len(words) - 1 or any(len(word) > LONGEST for word, _ in words):
        yield " …", False
