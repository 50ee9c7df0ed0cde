"""One example under attack, and the way its search asks the model: a generator that many of share one batch.

A search never looks at its budget to decide what to ask next, it only stops when the budget is spent. What it asks with
a small budget is therefore the beginning of what it asks with a larger one, and a larger budget can only break more.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .budget import Budget
from .words import Changes, Passage, Place, Row


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
