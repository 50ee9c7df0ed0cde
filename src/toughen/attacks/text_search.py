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
    from .victim import Victim

MARGIN = 1e-3
"""Logits by which another class must win before a text counts as adversarial: rounding must not undo it later."""
PARALLEL = 512

BatchFunction: TypeAlias = Callable[[Sequence[Row], Sequence[int]], Sequence[Any]]
"""What a model says of rows with their labels, one answer a row."""


@dataclass(frozen=True)
class Query:
    """Texts to put to the model. Queries of all searches to the same function are answered together."""

    rows: Sequence[Row]
    function: BatchFunction | None = None
    """None scores the texts: the answers are `QueryResult`s."""


@dataclass(frozen=True)
class QueryResult:
    """The probability of the label of a text, and whether another class wins."""

    probability: float
    success: bool


Search: TypeAlias = Generator[Query, Sequence[Any], None]
StartSearch: TypeAlias = "Callable[[SearchState], Search]"
Results: TypeAlias = Generator[Query, Sequence[Any], Sequence[QueryResult]]


@dataclass
class SearchState:
    """The state of the search on one example."""

    index: int
    text: AttackedText
    label: int
    budget: Budget
    probability: float = 1.0
    """The label's probability under the changes so far."""
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
        """Score as many of the texts as the budget still pays for."""
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
        """Score candidates, each on top of the changes so far; apply one that succeeds, which ends the search."""
        results = yield from self.query([self.text.changed({**self.changes, **each}) for each in candidates])
        successes = [index for index, result in enumerate(results) if result.success]
        if successes:
            best = min(successes, key=lambda index: results[index].probability)
            self.apply(candidates[best], results[best].probability)
            self.success = True
        return results

    def improve(self, candidates: Sequence[Replacements]) -> Generator[Query, Sequence[Any], bool]:
        """Score candidates and apply the best one if it lowers the label's probability; return whether it did."""
        results = yield from self.try_each(candidates)
        if self.success or not results:
            return self.success
        best = lowest(results)
        if results[best].probability >= self.probability:
            return False
        self.apply(candidates[best], results[best].probability)
        return True

    def apply(self, changes: Replacements, probability: float) -> None:
        self.changes.update(changes)
        self.probability = probability

    def importance(self) -> Generator[Query, Sequence[Any], Mapping[WordPosition, float]]:
        """Return how much the label's probability falls without a word, for every word that may be changed."""
        positions = self.text.positions
        results = yield from self.query([self.text.without(position) for position in positions])
        return {
            position: self.probability - result.probability
            for position, result in zip(positions, results, strict=False)
        }


def lowest(results: Sequence[QueryResult]) -> int:
    """Return the index of the result with the lowest probability."""
    return min(range(len(results)), key=lambda index: results[index].probability)


Variants = Callable[[SearchState, WordPosition], Sequence[str]]
"""The words that may replace the word at a position, best guesses first."""


def greedy(state: SearchState, variants: Variants) -> Search:
    """Replace word after word, the most important first, by what lowers the label's probability most.

    The search of DeepWordBug (Gao et al. 2018), with the importance of a word measured by leaving it out.
    """
    importance = yield from state.importance()
    for position in _descending(importance):
        if state.done:
            return
        yield from state.improve([{position: word} for word in variants(state, position)])


def pwws(state: SearchState, variants: Variants) -> Search:
    """Find the best substitute of every word, then apply them in the order of gain times importance.

    Probability weighted word saliency (Ren et al. 2019): the weight of a word is the softmax of its importance, which
    is measured by leaving the word out where the paper puts an unknown one.
    """
    importance = yield from state.importance()
    best_words: dict[WordPosition, tuple[str, float]] = {}
    for position in _descending(importance):
        if state.done:
            return
        words = variants(state, position)
        results = yield from state.try_each([{position: word} for word in words])
        if state.success:
            return
        if results:
            best = lowest(results)
            gain = state.probability - results[best].probability
            if gain > 0:
                best_words[position] = words[best], gain
    top = max(importance.values(), default=0.0)
    weight = {position: math.exp(importance[position] - top) * gain for position, (_, gain) in best_words.items()}
    for position in _descending(weight):
        if state.done:
            return
        change = {position: best_words[position][0]}
        results = yield from state.try_each([change])
        if results and not state.success:
            state.apply(change, results[0].probability)


def _descending(values: Mapping[WordPosition, float]) -> list[WordPosition]:
    """Return the positions, greatest value first; of equals the first in the text."""
    return sorted(values, key=lambda position: -values[position])


Active: TypeAlias = tuple[SearchState, Search, Query]


def run_all(
    victim: "Victim", searches: Iterable[tuple[SearchState, Search]], parallel: int = PARALLEL
) -> Iterator[list[SearchState]]:
    """Run the searches; yield after every wave of queries the states of the searches that ended in it.

    A search that ends makes room for the next one, so that waves stay large until the last.
    """
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


def _answer(victim: "Victim", wave: Sequence[Active]) -> Iterator[list[Any]]:
    """Yield the answers to each query of a wave."""
    inputs: dict[BatchFunction | None, tuple[list[Row], list[int]]] = {}
    for state, _, query in wave:
        rows, labels = inputs.setdefault(query.function, ([], []))
        rows += query.rows
        labels += [state.label] * len(query.rows)
    answers = {
        function: iter(function(rows, labels) if function else score(victim, rows, labels))
        for function, (rows, labels) in inputs.items()
    }
    for _, _, query in wave:
        yield [next(answers[query.function]) for _ in query.rows]


def score(victim: "Victim", rows: Sequence[Row], labels: Sequence[int]) -> list[QueryResult]:
    """Score rows. A success in half precision counts only if float32 confirms it."""
    if not rows:
        return []
    logits, scorer = victim.scores(rows), victim.scorer
    margins = [scorer.margin(one, label) for one, label in zip(logits, labels, strict=True)]
    if victim.half and (close := [index for index, margin in enumerate(margins) if margin > 0]):
        for index, exact in zip(close, victim.exact([rows[index] for index in close]), strict=True):
            margins[index] = scorer.margin(exact, labels[index])
    return [
        QueryResult(scorer.probability(one, label), margin > MARGIN)
        for one, label, margin in zip(logits, labels, margins, strict=True)
    ]
