"""Searches over the words of one example, given what each word may become."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence

from .attempt import Answer, Attempt, Scores, Search
from .words import Place

Variants = Callable[[Attempt, Place], Sequence[str]]
"""What the word at a place may become, best guesses first."""


def greedy(attempt: Attempt, variants: Variants) -> Search:
    """Word after word, the most important first, each to what lowers the label's probability most.

    The search of DeepWordBug (Gao et al. 2018), with the importance of a word by leaving it out.
    """
    importance = yield from attempt.importance()
    for place in _falling(importance):
        if attempt.over:
            return
        words = variants(attempt, place)
        told = yield from attempt.try_each([{place: word} for word in words])
        if not attempt.fooled and told:
            best = min(range(len(told)), key=lambda number: told[number].chance)
            if told[best].chance < attempt.chance:
                attempt.take({place: words[best]}, told[best].chance)


def weighted(attempt: Attempt, variants: Variants) -> Search:
    """The best substitute of every word first; then all of them, in the order of gain times importance.

    Probability weighted word saliency (Ren et al. 2019): the weight of a word is the softmax of its importance, which
    is measured by leaving the word out where the paper puts an unknown one.
    """
    importance = yield from attempt.importance()
    found: dict[Place, tuple[str, float]] = {}
    for place in _falling(importance):
        if attempt.over:
            return
        best = yield from _best(attempt, place, variants)
        if attempt.fooled:
            return
        if best is not None:
            found[place] = best
    top = max(importance.values(), default=0.0)
    weight = {place: math.exp(importance[place] - top) * gain for place, (_, gain) in found.items()}
    for place in _falling(weight):
        if attempt.over:
            return
        word = found[place][0]
        told = yield from attempt.try_each([{place: word}])
        if told and not attempt.fooled:
            attempt.take({place: word}, told[0].chance)


def _best(
    attempt: Attempt, place: Place, variants: Variants
) -> Generator[Scores, list[Answer], tuple[str, float] | None]:
    """The substitute that lowers the label's probability most, and by how much; None where none does."""
    words = variants(attempt, place)
    told = yield from attempt.try_each([{place: word} for word in words])
    if not told:
        return None
    number = min(range(len(told)), key=lambda each: told[each].chance)
    gain = attempt.chance - told[number].chance
    return (words[number], gain) if gain > 0 else None


def _falling(values: Mapping[Place, float]) -> list[Place]:
    """The places, greatest value first; of equals the first in the text."""
    return sorted(values, key=lambda place: -values[place])
