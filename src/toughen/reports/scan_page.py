"""The page of a scan: the decision, scores with losses, slices, the worst examples, and what would help."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from ..errors import count_of
from ..internal.atomic import write_text
from . import charts
from .attack_examples import LONGEST, Example, Marked, TextPair, same_start
from .drawing import Drawing
from .formatting import LOWER, format_interval, format_score
from .render import Card, render

if TYPE_CHECKING:
    from ..evaluation.scan_results import BrokenRow, CheckResult, Scan


SLICES = 60


def write_page(scan: "Scan") -> None:
    """Write scan.html of a scan."""
    write_text(
        scan.page,
        render(
            "scan.html",
            kind="scan",
            title=f"Scan of {scan.model}",
            verdicts=[scan.decision],
            cards=_cards(scan),
            scan=scan,
            drawings=_drawings(scan),
            slices=scan.slices[:SLICES],
            examples=[_example(each, row) for each in scan.checks for row in each.examples],
            examples_chosen="the worst of each check: those the model was surest of before",
            attacked_rows=sum(each.broken for each in scan.checks),
        ),
    )


def _cards(scan: "Scan") -> list[Card]:
    between = format_interval(scan.clean.low, scan.clean.high, scan.metric)
    cards = [
        Card(
            f"clean {scan.metric}",
            format_score(scan.clean.value, scan.metric),
            f"{between}, {count_of(scan.rows, 'row')}",
        )
    ]
    if scan.evaluation.calibration:
        cards.append(Card("calibration error", f"{scan.evaluation.calibration['ece']:.3f}", "0 is best"))
    return cards + [
        Card(each.check.name, format_score(each.score.value, scan.metric), f"lost {each.points} points")
        for each in scan.checks
    ]


def _drawings(scan: "Scan") -> list[Drawing]:
    scores = {"clean": scan.clean} | {each.check.name: each.score for each in scan.checks}
    groups = {name: {scan.metric: score} for name, score in scores.items()}
    note, points = "With 95 % intervals over rows.", scan.metric not in LOWER
    drawings = [charts.bars("score under each check", groups, y=scan.metric, note=note, points=points)]
    if calibration := scan.evaluation.calibration:
        curves = {f"calibration error {calibration['ece']:.3f}": calibration["bins"]}
        note = "On the dotted line a model knows how sure it may be; larger marks are more rows."
        drawings.append(charts.reliability("reliability", curves, note=note))
    return drawings


def _example(each: "CheckResult", row: "BrokenRow") -> Example:
    texts: list[TextPair] = []
    for column, before in row.original.items():
        after = row.changed[column]
        pieces = mark_letters(before, after)
        spaces = before != after and before.split() == after.split()
        texts.append(TextPair(column, *pieces, same=before == after, only_spaces=spaces))
    return Example("", each.check.name, row.index, "fooled", row.label, row.before, row.after, row.queries, texts)


ALIKE = 0.5  # similarity of two words from which on their letters are compared
SLOW = 600  # letters; longer changes are marked as a whole
AROUND = 80  # letters kept on both sides of a mark in a long text


def mark_letters(before: str, after: str) -> tuple[Marked, Marked]:
    """Return both texts in pieces: of the first what went is marked, of the second what came."""
    removed, added = [False] * len(before), [False] * len(after)
    for old, new in _changes(before, after):
        kept = _kept(before[old], after[new])
        for number in range(old.start, old.stop):
            removed[number] = number - old.start not in kept[0]
        for number in range(new.start, new.stop):
            added[number] = number - new.start not in kept[1]
    return _letter_pieces(before, removed), _letter_pieces(after, added)


def _changes(before: str, after: str) -> Iterator[tuple[slice, slice]]:
    """Yield the places of changed words; where words were cut or joined, all from the first change to the last."""
    words = [list(re.finditer(r"\S+", text)) for text in (before, after)]
    if len(words[0]) == len(words[1]):
        for old, new in zip(*words, strict=True):
            if old[0] != new[0]:
                yield slice(*old.span()), slice(*new.span())
        return
    start = same_start(before, after)
    end = same_start(before[start:][::-1], after[start:][::-1])
    yield slice(start, len(before) - end), slice(start, len(after) - end)


def _kept(old: str, new: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the letters that are in both; none of words that are not alike."""
    if max(len(old), len(new)) > SLOW:
        return set(), set()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < ALIKE:
        return set(), set()
    blocks = matcher.get_matching_blocks()
    return {a + n for a, _, size in blocks for n in range(size)}, {b + n for _, b, size in blocks for n in range(size)}


def _letter_pieces(text: str, marked: Sequence[bool]) -> Marked:
    """Cut a text where the marking changes; of a long one keep what is near the marks."""
    kept = [True] * len(text)
    if len(text) > LONGEST:
        places = [number for number, state in enumerate(marked) if state] or [0]
        kept = [False] * len(text)
        for place in places:
            for number in range(max(0, place - AROUND), min(len(text), place + AROUND)):
                kept[number] = True
    letters: list[tuple[str, bool]] = []
    for letter, state, near in zip(text, marked, kept, strict=True):
        if near:
            letters.append((_visible(letter), state))
        elif not letters or letters[-1][0] != " … ":
            letters.append((" … ", False))
    return [("".join(letter for letter, _ in part), state) for state, part in groupby(letters, key=itemgetter(1))]


def _visible(letter: str) -> str:
    """Return the letter, or the code of one that has no shape, such as a zero-width space."""
    return f"[U+{ord(letter):04X}]" if unicodedata.category(letter) in ("Cf", "Cc") and letter not in "\n\t" else letter
