"""Searches over the words of examples. Many searches share each batch that goes through the model.

A search never reads its budget to choose its next query; it only stops when the budget is spent. The queries under a
small budget are therefore the first queries under a larger one, and a larger budget can only succeed more often.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from .attacked_text import AttackedText, Budget, Replacements, WordPosition
from .base import Row

if TYPE_CHECKING:
    from .victim import TextVictim

FEWEST = 64  # searches at once

BatchFunction: TypeAlias = Callable[[Sequence[Row], Sequence[int]], Sequence[Any]]
"""What a model says of rows with their labels, one answer a row."""


@dataclass(frozen=True)
class Query:
    """Texts to put to the model. Queries of all searches to the same function are answered together."""

    rows: Sequence[Row]
    function: BatchFunction | None = None
    """None scores the texts: the answers are margins, the lead of the best wrong class over the best right one."""


Search: TypeAlias = Generator[Query, Sequence[Any], None]
StartSearch: TypeAlias = "Callable[[SearchState], Search]"
Results: TypeAlias = Generator[Query, Sequence[Any], Sequence[float]]


@dataclass
class SearchState:
    """The state of the search on one example."""

    index: int
    text: AttackedText
    label: int
    budget: Budget
    margin: float
    """The margin under the changes so far; above 0 the answer is wrong."""
    tie: float = 0.0
    """The margin that a text must exceed to count as adversarial."""
    queries: int = 0
    changes: dict[WordPosition, str] = field(default_factory=dict[WordPosition, str])
    success: bool = False

    @property
    def queries_left(self) -> int:
        return self.budget.queries - self.queries

    @property
    def done(self) -> bool:
        """Whether the search has succeeded or spent its budget."""
        return self.success or self.queries_left <= 0 or len(self.changes) >= self.budget.changes(self.text.words)

    def query(self, rows: Sequence[Row]) -> Results:
        """Return the margins of as many of the texts as the budget still pays for."""
        rows = rows[: max(0, self.queries_left)]
        if not rows:
            return []
        self.queries += len(rows)
        return (yield Query(rows))

    def ask(self, function: BatchFunction) -> Generator[Query, Sequence[Any], Any]:
        """Return the answer of a function of the model to the present text, for the price of a query."""
        self.queries += 1
        (answer,) = yield Query([self.text.changed(self.changes)], function)
        return answer

    def try_each(self, candidates: Sequence[Replacements]) -> Results:
        """Try candidates, each on top of the changes so far; apply the best if it succeeds, which ends the search."""
        margins = yield from self.query([self.text.changed({**self.changes, **each}) for each in candidates])
        if margins and margins[best := highest(margins)] > self.tie:
            self.apply(candidates[best], margins[best])
        return margins

    def improve(self, candidates: Sequence[Replacements]) -> Generator[Query, Sequence[Any], bool]:
        """Try candidates and apply the best one if it raises the margin; return whether it did."""
        margins = yield from self.try_each(candidates)
        if self.success or not margins:
            return self.success
        best = highest(margins)
        if margins[best] <= self.margin:
            return False
        self.apply(candidates[best], margins[best])
        return True

    def apply(self, changes: Replacements, margin: float) -> None:
        self.changes.update(changes)
        self.margin, self.success = margin, margin > self.tie

    def importance(self) -> Generator[Query, Sequence[Any], Mapping[WordPosition, float]]:
        """Return the margin without a word, for every word that may be changed: the highest is the most important."""
        positions = self.text.positions
        margins = yield from self.query([self.text.without(position) for position in positions])
        return dict(zip(positions, margins, strict=False))


def highest(margins: Sequence[float]) -> int:
    """Return the index of the highest margin; of equals the first."""
    return max(range(len(margins)), key=margins.__getitem__)


Variants = Callable[[SearchState, WordPosition], Sequence[str]]
"""The words that may replace the word at a position, best guesses first."""


def greedy(state: SearchState, variants: Variants) -> Search:
    """Replace word after word, the most important first, by what raises the margin most.

    The search of DeepWordBug (Gao et al. 2018), with the importance of a word measured by leaving it out.
    """
    importance = yield from state.importance()
    for position in descending(importance):
        if state.done:
            return
        yield from state.improve([{position: word} for word in variants(state, position)])


def pwws(state: SearchState, variants: Variants, temperature: float) -> Search:
    """Find the best substitute of every word, then apply them in the order of gain times importance.

    Probability weighted word saliency (Ren et al. 2019): the weight of a word is the softmax of its importance, which
    is measured by leaving the word out where the paper puts an unknown one. Gain and importance are falls of the
    probability at the temperature. They only order the words; what is best or adversarial is decided by margins.
    """

    def fall(margin: float) -> float:
        return (math.tanh(margin / temperature / 2) - math.tanh(clean / temperature / 2)) / 2

    clean = state.margin
    importance = yield from state.importance()
    best_words: dict[WordPosition, tuple[str, float]] = {}
    for position in descending(importance):
        if state.done:
            return
        words = variants(state, position)
        margins = yield from state.try_each([{position: word} for word in words])
        if state.success:
            return
        if margins and margins[best := highest(margins)] > clean:
            best_words[position] = words[best], margins[best]
    weight = {at: math.exp(fall(importance[at])) * fall(margin) for at, (_, margin) in best_words.items()}
    for position in descending(weight):
        if state.done:
            return
        change = {position: best_words[position][0]}
        margins = yield from state.try_each([change])
        if margins and not state.success:
            state.apply(change, margins[0])


def descending(values: Mapping[WordPosition, float]) -> list[WordPosition]:
    """Return the positions, greatest value first; of equals the first in the text."""
    return sorted(values, key=lambda position: -values[position])


Active: TypeAlias = tuple[SearchState, Search, Query]


def run_all(
    victim: "TextVictim", searches: Iterable[tuple[SearchState, Search]], parallel: int | None = None
) -> Iterator[list[SearchState]]:
    """Run the searches; yield after every wave of queries the states of the searches that ended in it.

    A search that ends makes room for the next one, so that waves stay large until the last. A kill loses the searches
    that run, so there are no more than a device needs to be busy.
    """
    parallel = parallel or max(FEWEST, victim.rows // 4)
    waiting = iter(searches)
    active: list[Active] = []
    while True:
        ended: list[SearchState] = []
        while len(active) < parallel and (new := next(waiting, None)) is not None:
            _advance(*new, None, active, ended)
        if not active:
            if ended:
                yield ended
                continue
            return
        wave, active = active, []
        for (state, search, _), answers in zip(wave, _answer(victim, wave), strict=True):
            _advance(state, search, answers, active, ended)
        yield ended


def _advance(state: SearchState, search: Search, answers: Any, active: list[Active], ended: list[SearchState]) -> None:
    try:
        active.append((state, search, search.send(answers)))
    except StopIteration:
        ended.append(state)


def _answer(victim: "TextVictim", wave: Sequence[Active]) -> Iterator[list[Any]]:
    """Yield the answers to each query of a wave."""
    inputs: dict[BatchFunction, tuple[list[Row], list[int]]] = {}
    for state, _, query in wave:
        if query.function is not None:
            rows, labels = inputs.setdefault(query.function, ([], []))
            rows += query.rows
            labels += [state.label] * len(query.rows)
    scored = [(query.rows, state.label) for state, _, query in wave if query.function is None]
    margins = iter(query_margins(victim, scored))
    answers = {function: iter(function(rows, labels)) for function, (rows, labels) in inputs.items()}
    for _, _, query in wave:
        function = query.function
        yield next(margins) if function is None else [next(answers[function]) for _ in query.rows]


def query_margins(victim: "TextVictim", queries: Sequence[tuple[Sequence[Row], int]]) -> list[list[float]]:
    """Return the margins of the rows of each query, by its label.

    Half precision only proposes. What a search goes by is float32: the highest margin of a query, and all above 0.
    """
    import numpy as np  # not above: `toughen evaluate --help` lists the attacks

    rows = [row for some, _ in queries for row in some]
    if not rows:
        return [[] for _ in queries]
    labels = [label for some, label in queries for _ in some]
    margins = np.asarray(list(map(victim.scorer.margin, victim.scores(rows), labels)))
    ends = np.cumsum([len(some) for some, _ in queries])
    parts = np.split(margins, ends[:-1])  # views: what is asked again changes in them, too
    if victim.half:
        exact = np.zeros(len(rows), dtype=bool)
        while True:
            highest = np.concatenate([part == part.max(initial=-np.inf) for part in parts])
            again = np.flatnonzero((highest | (margins > 0)) & ~exact)
            if not len(again):
                break
            for index, logits in zip(again, victim.exact([rows[index] for index in again]), strict=True):
                margins[index] = victim.scorer.margin(logits, labels[index])
            exact[again] = True
    return [part.tolist() for part in parts]
