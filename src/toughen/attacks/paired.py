"""Models under the same attack on the same rows: paired differences, and scores by seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..statistics import mcnemar, paired_bootstrap
from ..tasks import difference as difference_of
from ..tasks import metrics
from ..tasks.spec import Task
from .base import Outcome
from .runner import AttackResult


@dataclass(frozen=True)
class Difference:
    """Two models at one point of an attack, first minus second.

    Args:
        attack: The name of the attack.
        first: The score of the first model.
        second: The score of the second model.
        low: The lower end of the difference's 95 % interval.
        high: The upper end.

    Examples:
        >>> toughen.evaluation.differences(found.attacks, found.attacks)[0].difference
        0.0
    """

    attack: str
    point: str
    """"after" for text attacks; a radius, a kind of noise with its strength, a set."""
    first: float
    second: float
    low: float
    high: float
    p: float | None
    """Paired bootstrap on rows, by the sign of the difference; None for metrics other than accuracy."""
    mcnemar: float | None
    """McNemar's exact test on the rows that divide the two; None where none does, or for other metrics."""

    @property
    def difference(self) -> float:
        return self.first - self.second


def differences(first: Sequence[AttackResult], second: Sequence[AttackResult], samples: int = 2000) -> list[Difference]:
    """Return the paired differences at every point that both models have, over the same rows.

    Args:
        first: The attacks on the first model.
        second: The attacks on the second model.
        samples: Bootstrap samples.

    Returns:
        A difference for each point, first minus second.

    Raises:
        ValueError: The two were attacked on different rows.

    Examples:
        >>> toughen.evaluation.differences(found.attacks, found.attacks)[0].difference
        0.0
    """
    others = {each.summary.attack: each for each in second}
    pairs = [(each, others.get(each.summary.attack)) for each in first]
    return [difference for each, other in pairs if other is not None for difference in _points(each, other, samples)]


def _points(first: AttackResult, second: AttackResult, samples: int) -> Iterator[Difference]:
    name = first.summary.attack
    if first.texts and second.texts and first.texts != second.texts:
        raise ValueError(
            f"{name}: the two models were attacked on different rows, so they cannot be paired; give the same rows "
            "with file= (--file)."
        )
    for point, one in first.outcomes.items():
        if (two := second.outcomes.get(point)) is None:
            continue
        if len(one.rows) != len(two.rows):
            raise ValueError(
                f"{name} at {point}: {len(one.rows)} and {len(two.rows)} rows: evaluate both on the same ones."
            )
        yield compare(first.task, first.summary.metric, one, two, attack=name, point=point, samples=samples)


def compare(
    task: Task, metric: str, one: Outcome, two: Outcome, *, attack: str = "", point: str = "", samples: int = 2000
) -> Difference:
    """Return the difference of two outcomes of the same rows, first minus second, with its paired interval."""
    scores = outcome_score(task, metric, one), outcome_score(task, metric, two)
    if one.labels is None:
        yes = [True] * len(one.rows)
        drawn, exact = paired_bootstrap(one.rows, two.rows, yes, samples=samples), mcnemar(one.rows, two.rows, yes)
        return Difference(attack, point, *scores, float(drawn.low or 0), float(drawn.high or 0), drawn.p, exact.p)
    paired = difference_of(task, one.rows, two.rows, one.labels, metric, samples=samples)
    return Difference(attack, point, *scores, paired.low, paired.high, None, None)


def seed_scores(models: Mapping[int, Sequence[AttackResult]]) -> dict[tuple[str, str], dict[int, float]]:
    """Return attack and point -> seed -> score for the models of one arm, as `summarise` and `paired_t` take it.

    Args:
        models: Seed -> the attacks on its model.

    Returns:
        Attack and point -> seed -> score.

    Examples:
        >>> scores = toughen.evaluation.seed_scores({1: found.attacks})
        >>> {attack for attack, point in scores}
        {'noise'}
    """
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for seed, attacks in models.items():
        for each in attacks:
            for point, outcome in each.outcomes.items():
                scores.setdefault((each.summary.attack, point), {})[seed] = outcome_score(
                    each.task, each.summary.metric, outcome
                )
    return scores


def outcome_score(task: Task, metric: str, outcome: Outcome) -> float:
    """Return the share of right rows, or the metric of answers."""
    if outcome.labels is None:
        return float(np.mean(outcome.rows))
    return metrics(task)(outcome.rows, outcome.labels)[metric]
