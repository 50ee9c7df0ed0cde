"""One sentence about a comparison: clean and under attack, beside the reference, with intervals and cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import count_of
from ..statistics import PairedTestResult
from .comparison import Comparison, Row, difference_of, under_attack
from .formatting import format_interval, format_score, lower_is_better

Answer = Literal["better", "worse", "mixed", "open"]
MOST_ATTACKS = 2  # that the sentence names


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
    def scores(self) -> tuple[str, str]:
        """The scores of the reference and of the method, shares in points of 100."""
        return format_score(self.reference, self.metric), format_score(self.score, self.metric)

    @property
    def words(self) -> str:
        """Both scores and their difference."""
        reference, score = self.scores
        unit = "" if lower_is_better(self.metric) else "points "
        return f"{self.name}: {score} and {reference} {unit}of {self.metric} ({self.difference})"

    @property
    def difference(self) -> str:
        """The difference with its interval, and what the interval is over."""
        test = self.test
        if test is None or test.low is None or test.high is None:
            return format_score(self.score - self.reference, self.metric, sign="+")
        # The difference of the seeds or rows that both have, as the interval is.
        gain = format_score(test.difference, self.metric, (test.high - test.low) / 2, "+").partition(" ")[0]
        over = "seeds" if "seeds" in test.test else "rows"
        return f"{gain}, 95 % over {over} {format_interval(test.low, test.high, self.metric, '+')}"


@dataclass(frozen=True)
class Verdict:
    """What a comparison says about its best method, and about the reference."""

    method: str
    reference: str
    clean: Part
    attacked: Sequence[Part]
    """Every attack on both, those with a clear answer first."""
    cost: float | None
    """Time of a step as a multiple of the reference's."""

    @property
    def under_attack(self) -> Answer:
        """What all attacks say together: those without a clear answer decide nothing."""
        answers: set[Answer] = {part.answer for part in self.attacked}
        answers.discard("open")
        if len(answers) > 1:
            return "mixed"
        return answers.pop() if answers else "open"

    @property
    def decision(self) -> str:
        """What to take, as far as the intervals say it."""
        method, reference = self.method, self.reference
        match self.under_attack, self.clean.answer:
            case "mixed", _:
                return f"{method} is more robust to some attacks and less to others: choose by those that matter to you"
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
                where = "under attack" if self.under_attack == "worse" else "when clean"
                return f"take {reference}: {method} is worse {where}"

    @property
    def sentence(self) -> str:
        """Decision, scores and cost."""
        parts = [part.words for part in (self.clean, *self.attacked[:MOST_ATTACKS])]
        if (more := len(self.attacked) - MOST_ATTACKS) > 0:
            parts.append(f"and {count_of(more, 'more attack')}")
        cost = f", at {self.cost:.1f} times the time of a step" if self.cost else ""
        beside = f"{self.method} beside {self.reference}, {'; '.join(parts)}{cost}."
        return f"{self.decision[0].upper()}{self.decision[1:]}. {beside}"


def verdict(table: Comparison) -> Verdict | None:
    """Return the verdict on the best method that has a reference; None if there is none."""
    held = table.ranked([row for row in table.rows if row.reference])
    if not held:
        return None
    row = next((each for each in held if each.members[0].method != "plain"), held[0])
    reference = next(each for each in table.rows if each.name == row.reference)
    means = (row.summary.mean, reference.summary.mean)
    clean = Part("clean", table.metric, *means, difference_of(row), table.sign)
    attacked = sorted(_attacked(table, row, reference), key=lambda part: (part.answer == "open", part.test is None))
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
        return found.sentence + ("" if found.attacked else way)
    best = table.best
    score = format_score(best.summary.mean, table.metric, best.summary.sd)
    unit = "" if lower_is_better(table.metric) else "points "
    spread = f", mean and sd of {best.summary.count} seeds" if best.summary.count > 1 else ""
    alone = f"{best.name} reaches {score} {unit}of {table.metric}{spread}."
    compared = len(table.rows) > 1 or best.members[0].method == "plain"
    return alone if compared else f"{alone} Train with --baseline to see what plain fine-tuning reaches."


def _attacked(table: Comparison, row: Row, reference: Row) -> Iterator[Part]:
    """Yield the attacks on both with one budget."""
    tests, seen = under_attack(table), set[tuple[str, str]]()
    theirs = {(each.key, each.terms): each for member in reference.members for each in member.attacks}
    for attack in (each for member in row.members for each in member.attacks):
        other = theirs.get((attack.key, attack.terms))
        kind = attack.title, attack.terms
        if other is not None and attack.end and other.end and kind not in seen:  # of several, the run's own rows
            seen.add(kind)
            name = f"under {attack.title} {attack.end[1]}".rstrip()
            test = tests.get(kind, {}).get(row.name)
            yield Part(name, attack.metric, attack.end[0].value, other.end[0].value, test)
