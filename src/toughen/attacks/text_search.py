"""Searches over the words of examples. Many searches share each batch that goes through the model.

A search never looks at its budget to decide what to ask next; it only stops when the budget is spent. The queries under
a small budget are therefore the first queries under a larger one, and a larger budget can only succeed more often.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .attacked_text import AttackedText, Budget, Replacements, Row, WordPosition
from .victim import MARGIN, LabelScorer, Victim


@dataclass(frozen=True)
class ScoreQuery:
    """Ask the model for the scores of these texts."""

    rows: Sequence[Row]


@dataclass(frozen=True)
class GradientQuery:
    """Ask for the gradient of the margin at the embedding of each token."""

    row: Row


@dataclass(frozen=True)
class QueryResult:
    """The probability of the label of a text, and whether another class wins."""

    probability: float
    success: bool


Search: TypeAlias = Generator[ScoreQuery | GradientQuery, Any, None]


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
        """Queries that may still be made."""
        return self.budget.queries - self.queries

    @property
    def done(self) -> bool:
        """Whether there is nothing more to do, or nothing left to do it with."""
        return self.success or self.queries_left <= 0 or len(self.changes) >= self.budget.changes(self.text.words)

    def query(self, rows: Sequence[Row]) -> Generator[ScoreQuery, list[QueryResult], list[QueryResult]]:
        """Answers for as many of the texts as the budget still pays for."""
        rows = rows[: max(0, self.queries_left)]
        if not rows:
            return []
        self.queries += len(rows)
        return (yield ScoreQuery(rows))

    def gradient(self) -> Generator[GradientQuery, Any, Any]:
        """The gradient at the present text, for the price of a query."""
        self.queries += 1
        return (yield GradientQuery(self.text.changed(self.changes)))

    def try_each(
        self, candidates: Sequence[Replacements]
    ) -> Generator[ScoreQuery, list[QueryResult], list[QueryResult]]:
        """Put changes to the model, each on top of those so far; one that fools it is taken and ends the search."""
        results = yield from self.query([self.text.changed({**self.changes, **each}) for each in candidates])
        successes = [index for index, answer in enumerate(results) if answer.success]
        if successes:
            best = min(successes, key=lambda index: results[index].probability)
            self.apply(candidates[best], results[best].probability)
            self.success = True
        return results

    def apply(self, changes: Replacements, probability: float) -> None:
        self.changes.update(changes)
        self.probability = probability

    def importance(self) -> Generator[ScoreQuery, list[QueryResult], Mapping[WordPosition, float]]:
        """By how much the label's probability falls when a word is left out, for every word that may be changed."""
        positions = self.text.positions
        results = yield from self.query([self.text.without(position) for position in positions])
        return {
            position: self.probability - answer.probability
            for position, answer in zip(positions, results, strict=False)
        }


Variants = Callable[[SearchState, WordPosition], Sequence[str]]
"""The words that may replace the word at a position, best guesses first."""


def greedy(state: SearchState, variants: Variants) -> Search:
    """Word after word, the most important first, each to what lowers the label's probability most.

    The search of DeepWordBug (Gao et al. 2018), with the importance of a word by leaving it out.
    """
    importance = yield from state.importance()
    for position in _falling(importance):
        if state.done:
            return
        words = variants(state, position)
        results = yield from state.try_each([{position: word} for word in words])
        if not state.success and results:
            best = min(range(len(results)), key=lambda number: results[number].probability)
            if results[best].probability < state.probability:
                state.apply({position: words[best]}, results[best].probability)


def pwws(state: SearchState, variants: Variants) -> Search:
    """The best substitute of every word first; then all of them, in the order of gain times importance.

    Probability weighted word saliency (Ren et al. 2019): the weight of a word is the softmax of its importance, which
    is measured by leaving the word out where the paper puts an unknown one.
    """
    importance = yield from state.importance()
    best_words: dict[WordPosition, tuple[str, float]] = {}
    for position in _falling(importance):
        if state.done:
            return
        best = yield from _best(state, position, variants)
        if state.success:
            return
        if best is not None:
            best_words[position] = best
    top = max(importance.values(), default=0.0)
    weight = {position: math.exp(importance[position] - top) * gain for position, (_, gain) in best_words.items()}
    for position in _falling(weight):
        if state.done:
            return
        word = best_words[position][0]
        results = yield from state.try_each([{position: word}])
        if results and not state.success:
            state.apply({position: word}, results[0].probability)


def _best(
    state: SearchState, position: WordPosition, variants: Variants
) -> Generator[ScoreQuery, list[QueryResult], tuple[str, float] | None]:
    """The substitute that lowers the label's probability most, and by how much; None where none does."""
    words = variants(state, position)
    results = yield from state.try_each([{position: word} for word in words])
    if not results:
        return None
    number = min(range(len(results)), key=lambda each: results[each].probability)
    gain = state.probability - results[number].probability
    return (words[number], gain) if gain > 0 else None


def _falling(values: Mapping[WordPosition, float]) -> list[WordPosition]:
    """The positions, greatest value first; of equals the first in the text."""
    return sorted(values, key=lambda position: -values[position])


PARALLEL = 512

GradientFn = Callable[[Sequence[Row], Sequence[int]], list[Any]]


def run_all(
    victim: Victim,
    searches: Iterable[tuple[SearchState, Search]],
    gradient_fn: GradientFn | None = None,
    parallel: int = PARALLEL,
) -> Iterator[list[SearchState]]:
    """Drive the searches to their ends; yields after every wave the attempts that ended in it.

    An ended search makes room for the next one, so that waves stay large until the last.
    """
    waiting = iter(searches)
    scorer = LabelScorer(victim.task)
    active: list[tuple[SearchState, Search, ScoreQuery | GradientQuery]] = []
    while True:
        ended: list[SearchState] = []
        while len(active) < parallel and (new := next(waiting, None)) is not None:
            state, search = new
            _advance(state, search, None, active, ended)
        if not active:
            if ended:
                yield ended
                continue
            return
        wave, active = active, []
        results = _answers(victim, scorer, wave, gradient_fn)
        for (state, search, _), answer in zip(wave, results, strict=True):
            _advance(state, search, answer, active, ended)
        yield ended


def _advance(
    state: SearchState,
    search: Search,
    answer: Any,
    active: list[tuple[SearchState, Search, ScoreQuery | GradientQuery]],
    ended: list[SearchState],
) -> None:
    try:
        active.append((state, search, search.send(answer)))
    except StopIteration:
        ended.append(state)


def _answers(
    victim: Victim,
    scorer: LabelScorer,
    wave: Sequence[tuple[SearchState, Search, ScoreQuery | GradientQuery]],
    gradient_fn: GradientFn | None,
) -> list[Any]:
    asked = [(a, ask.rows) for a, _, ask in wave if isinstance(ask, ScoreQuery)]
    flat = [(row, state.label) for state, rows in asked for row in rows]
    scored = iter(_judged(victim, scorer, [row for row, _ in flat], [label for _, label in flat]))
    with_gradient = [(ask.row, a.label) for a, _, ask in wave if isinstance(ask, GradientQuery)]
    assert gradient_fn is not None or not with_gradient
    gradients = iter(
        gradient_fn([row for row, _ in with_gradient], [label for _, label in with_gradient])
        if gradient_fn and with_gradient
        else ()
    )
    return [[next(scored) for _ in ask.rows] if isinstance(ask, ScoreQuery) else next(gradients) for _, _, ask in wave]


def _judged(victim: Victim, scorer: LabelScorer, rows: Sequence[Row], labels: Sequence[int]) -> list[QueryResult]:
    """Score rows; a success in half precision counts only if float32 confirms it."""
    if not rows:
        return []
    logits = victim.scores(rows)
    leads = [scorer.margin(one, label) for one, label in zip(logits, labels, strict=True)]
    if victim.half and (close := [index for index, lead in enumerate(leads) if lead > 0]):
        for index, exact in zip(close, victim.exact([rows[index] for index in close]), strict=True):
            leads[index] = scorer.margin(exact, labels[index])
    return [
        QueryResult(scorer.probability(one, label), lead > MARGIN)
        for one, label, lead in zip(logits, labels, leads, strict=True)
    ]
