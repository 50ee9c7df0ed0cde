"""Searches over the words of examples. Many searches share each batch that goes through the model.

A search never looks at its budget to decide what to ask next; it only stops when the budget is spent. The queries under
a small budget are therefore the first queries under a larger one, and a larger budget can only succeed more often.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .attacked_text import Budget, Changes, Passage, Place, Row
from .victim import MARGIN, Judge, Victim


@dataclass(frozen=True)
class Scores:
    """A search's question: what does the model say of these texts?"""

    rows: Sequence[Row]


@dataclass(frozen=True)
class Slope:
    """A search's question: how does the margin of the wrong classes move with the embedding of each token?"""

    row: Row


@dataclass(frozen=True)
class Answer:
    """Of one text: the probability of its label, and whether another class wins."""

    chance: float
    fooled: bool


Search: TypeAlias = Generator[Scores | Slope, Any, None]


@dataclass
class Attempt:
    """How far the attack on one example is."""

    index: int
    passage: Passage
    label: int
    budget: Budget
    chance: float = 1.0
    """The label's probability under the changes so far."""
    queries: int = 0
    changes: dict[Place, str] = field(default_factory=dict[Place, str])
    fooled: bool = False

    @property
    def left(self) -> int:
        """Queries that may still be made."""
        return self.budget.queries - self.queries

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do, or nothing left to do it with."""
        return self.fooled or self.left <= 0 or len(self.changes) >= self.budget.changes(self.passage.words)

    def ask(self, rows: Sequence[Row]) -> Generator[Scores, list[Answer], list[Answer]]:
        """Answers for as many of the texts as the budget still pays for."""
        rows = rows[: max(0, self.left)]
        if not rows:
            return []
        self.queries += len(rows)
        return (yield Scores(rows))

    def slope(self) -> Generator[Slope, Any, Any]:
        """The gradient at the present text, for the price of a query."""
        self.queries += 1
        return (yield Slope(self.passage.changed(self.changes)))

    def try_each(self, candidates: Sequence[Changes]) -> Generator[Scores, list[Answer], list[Answer]]:
        """Put changes to the model, each on top of those so far; one that fools it is taken and ends the search."""
        told = yield from self.ask([self.passage.changed({**self.changes, **each}) for each in candidates])
        fooling = [place for place, answer in enumerate(told) if answer.fooled]
        if fooling:
            best = min(fooling, key=lambda place: told[place].chance)
            self.take(candidates[best], told[best].chance)
            self.fooled = True
        return told

    def take(self, changes: Changes, chance: float) -> None:
        self.changes.update(changes)
        self.chance = chance

    def importance(self) -> Generator[Scores, list[Answer], Mapping[Place, float]]:
        """By how much the label's probability falls when a word is left out, for every word that may be changed."""
        places = self.passage.places
        told = yield from self.ask([self.passage.without(place) for place in places])
        return {place: self.chance - answer.chance for place, answer in zip(places, told, strict=False)}


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


AT_ONCE = 512

Slopes = Callable[[Sequence[Row], Sequence[int]], list[Any]]


def run_all(
    victim: Victim, searches: Iterable[tuple[Attempt, Search]], slopes: Slopes | None = None, at_once: int = AT_ONCE
) -> Iterator[list[Attempt]]:
    """Drive the searches to their ends; yields after every wave the attempts that ended in it.

    An ended search makes room for the next one, so that waves stay large until the last.
    """
    waiting = iter(searches)
    judge = Judge(victim.task)
    active: list[tuple[Attempt, Search, Scores | Slope]] = []
    while True:
        ended: list[Attempt] = []
        while len(active) < at_once and (new := next(waiting, None)) is not None:
            attempt, search = new
            _advance(attempt, search, None, active, ended)
        if not active:
            if ended:
                yield ended
                continue
            return
        wave, active = active, []
        told = _answers(victim, judge, wave, slopes)
        for (attempt, search, _), answer in zip(wave, told, strict=True):
            _advance(attempt, search, answer, active, ended)
        yield ended


def _advance(
    attempt: Attempt,
    search: Search,
    answer: Any,
    active: list[tuple[Attempt, Search, Scores | Slope]],
    ended: list[Attempt],
) -> None:
    try:
        active.append((attempt, search, search.send(answer)))
    except StopIteration:
        ended.append(attempt)


def _answers(
    victim: Victim, judge: Judge, wave: Sequence[tuple[Attempt, Search, Scores | Slope]], slopes: Slopes | None
) -> list[Any]:
    asked = [(a, ask.rows) for a, _, ask in wave if isinstance(ask, Scores)]
    flat = [(row, attempt.label) for attempt, rows in asked for row in rows]
    scored = iter(_judged(victim, judge, [row for row, _ in flat], [label for _, label in flat]))
    steep = [(ask.row, a.label) for a, _, ask in wave if isinstance(ask, Slope)]
    assert slopes is not None or not steep
    found = iter(slopes([row for row, _ in steep], [label for _, label in steep]) if slopes and steep else ())
    return [[next(scored) for _ in ask.rows] if isinstance(ask, Scores) else next(found) for _, _, ask in wave]


def _judged(victim: Victim, judge: Judge, rows: Sequence[Row], labels: Sequence[int]) -> list[Answer]:
    """Answers of which none says "fooled" that float32 does not confirm."""
    if not rows:
        return []
    logits = victim.scores(rows)
    leads = [judge.margin(one, label) for one, label in zip(logits, labels, strict=True)]
    if victim.half and (near := [place for place, lead in enumerate(leads) if lead > 0]):
        for place, exact in zip(near, victim.exact([rows[place] for place in near]), strict=True):
            leads[place] = judge.margin(exact, labels[place])
    return [
        Answer(judge.chance(one, label), lead > MARGIN) for one, label, lead in zip(logits, labels, leads, strict=True)
    ]
