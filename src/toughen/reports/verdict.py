"""One sentence about a comparison: clean and under attack, beside the reference, with intervals and cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..statistics import PairedTestResult
from .comparison import Comparison, Row, difference_of, under_attack

Answer = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class Part:
    """Scores of a method and of its reference, clean or under one attack."""

    name: str
    metric: str
    score: float
    reference: float
    test: PairedTestResult | None
    sign: int = 1
    """-1 for a metric of which less is better."""

    @property
    def answer(self) -> Answer:
        """Whether the interval of the difference holds no zero."""
        low, high = (self.test.low, self.test.high) if self.test else (None, None)
        if low is None or high is None or low <= 0 <= high:
            return "open"
        return "better" if self.sign * low > 0 else "worse"

    @property
    def words(self) -> str:
        """Both scores and their difference."""
        return f"{self.name}: {self.score:.3f} and {self.reference:.3f} of {self.metric} ({self.difference})"

    @property
    def difference(self) -> str:
        """The difference with its interval, and what the interval is over."""
        gain = f"{self.score - self.reference:+.3f}"
        if self.test is None or self.test.low is None or self.test.high is None:
            return gain
        over = "seeds" if "seeds" in self.test.test else "rows"
        return f"{gain}, 95 % over {over} {self.test.low:+.3f} to {self.test.high:+.3f}"


@dataclass(frozen=True)
class Verdict:
    """What a comparison says about its best method, and about the reference."""

    method: str
    reference: str
    clean: Part
    attacked: Part | None
    cost: float | None
    """Time of a step as a multiple of the reference's."""

    @property
    def decision(self) -> str:
        """What to take, as far as the intervals say it."""
        method, reference = self.method, self.reference
        under: Answer = self.attacked.answer if self.attacked else "open"
        match under, self.clean.answer:
            case "better", "better" | "open":
                lost = "and better clean" if self.clean.answer == "better" else "with no clear loss when clean"
                return f"take {method}: it is more robust, {lost}"
            case "better", "worse":
                return f"{method} is more robust and worse when clean: take it if attacks or noise matter to you"
            case "open", "better":
                return f"take {method}: it is better clean; that it is more robust is not shown"
            case "worse", "better":
                return f"{method} is better clean and less robust: take it if nobody attacks"
            case "open", "open":
                return f"no clear difference: {reference} costs less, and more seeds or rows may tell"
            case _:
                return f"take {reference}: {method} is worse {'under attack' if under == 'worse' else 'when clean'}"

    @property
    def sentence(self) -> str:
        """Decision, scores and cost."""
        parts = [self.clean.words, *([self.attacked.words] if self.attacked else [])]
        cost = f", at {self.cost:.1f} times the time of a step" if self.cost else ""
        beside = f"{self.method} beside {self.reference}, {'; '.join(parts)}{cost}."
        return f"{self.decision[0].upper()}{self.decision[1:]}. {beside}"


def verdict(table: Comparison) -> Verdict | None:
    """Return the verdict on the best method that has a reference; None if there is none."""
    held = table.ranked([row for row in table.rows if row.reference])
    if not held:
        return None
    row = held[0]
    reference = next(each for each in table.rows if each.name == row.reference)
    means = (row.summary.mean, reference.summary.mean)
    clean = Part("clean", table.metric, *means, difference_of(row), table.sign)
    attacked = next(_attacked(table, row, reference), None)
    return Verdict(row.name, reference.name, clean, attacked, row.ratio.get("seconds_per_step"))


def sentence(table: Comparison) -> str:
    """Return the sentence that a report of this comparison begins with.

    Args:
        table: One of the tables of `compare_runs`.

    Returns:
        What to use, with scores, intervals and cost.

    Examples:
        >>> from toughen.reports import compare_runs, find_runs, sentence
        >>> print(sentence(compare_runs(find_runs([run]))[0]))
        freelb reaches ...
    """
    if found := verdict(table):
        way = " Nothing was attacked yet: toughen evaluate RUN --all_seeds --attack embedding."
        return found.sentence + (way if found.attacked is None else "")
    best = table.best
    spread = f", mean of {best.summary.count} seeds" if best.summary.count > 1 else ""
    alone = f"{best.name} reaches {best.summary.mean:.4f} of {table.metric}{spread}."
    compared = len(table.rows) > 1 or best.members[0].method == "plain"
    return alone if compared else f"{alone} Train with --baseline to see what plain fine-tuning reaches."


def _attacked(table: Comparison, row: Row, reference: Row) -> Iterator[Part]:
    """Yield the attacks on both with one budget, those with an interval first."""
    tests = under_attack(table)
    parts: list[Part] = []
    theirs = {(each.key, each.terms): each for member in reference.members for each in member.attacks}
    for attack in (each for member in row.members for each in member.attacks):
        other = theirs.get((attack.key, attack.terms))
        if other is not None and attack.end and other.end:
            name = f"under {attack.title} {attack.end[1]}".rstrip()
            test = tests.get(attack.title, {}).get(row.name)
            parts.append(Part(name, attack.metric, attack.end[0].value, other.end[0].value, test))
    yield from sorted(parts, key=lambda part: part.test is None)
