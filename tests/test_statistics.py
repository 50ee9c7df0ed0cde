"""Statistics against scipy, a loop by hand, and cases where nothing can be said."""

import itertools
import math
import random

import pytest
from scipy import stats

from toughen.statistics import bootstrap_of, cost, cost_ratio, mcnemar, paired_bootstrap, paired_t, summarise


def test_summary():
    found = summarise([0.7, 0.8, 0.75])
    assert (found.count, found.median) == (3, 0.75)
    assert found.mean == pytest.approx(0.75)
    assert found.sd == pytest.approx(0.05)
    assert str(found) == "0.7500 ± 0.0500"
    assert summarise([0.5]).sd is None
    assert str(summarise([0.5])) == "0.5000"
    with pytest.raises(ValueError, match="no score"):
        summarise([])


@pytest.mark.parametrize("values", [[0.5, math.nan], [0.5, math.inf], [math.inf, -math.inf], [math.nan]])
def test_scores_that_are_no_numbers(values):
    found = summarise(values)
    assert found.count == len(values)
    assert math.isnan(found.mean)
    test = paired_t(dict(enumerate(values)), dict(enumerate([0.25] * len(values))))
    assert (test.p, test.why) == (None, "a score is not a number")
    assert test.count == len(values)


def test_paired_t_is_scipys():
    first, second = {1: 0.71, 2: 0.74, 3: 0.70, 9: 0.9}, {1: 0.70, 2: 0.70, 3: 0.69, 4: 0.1}
    found = paired_t(first, second)
    known = stats.ttest_rel([0.71, 0.74, 0.70], [0.70, 0.70, 0.69])
    assert found.count == 3  # seeds that one of them lacks are left out
    assert found.p == pytest.approx(known.pvalue)
    interval = known.confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert paired_t(second, first).p == pytest.approx(found.p)  # whichever is called the first


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({1: 0.5}, {2: 0.5}, "no seed in common"),
        ({1: 0.5}, {1: 0.4}, "one seed"),
        ({1: 0.5, 2: 0.75}, {1: 0.25, 2: 0.5}, "same difference"),
        ({1: 0.9, 2: 0.8, 3: 0.7}, {1: 0.8, 2: 0.7, 3: 0.6}, "same difference"),  # but for rounding
        ({1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}, "same difference"),
        ({1: 1e6 + 0.9, 2: 1e6 + 0.8, 3: 1e6 + 0.7}, {1: 0.8, 2: 0.7, 3: 0.6}, "same difference"),  # and this too
    ],
)
def test_paired_t_says_when_it_cannot(first, second, why):
    found = paired_t(first, second)
    assert found.p is None
    assert why in found.why


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e15])
def test_seeds_that_one_run_alone_has_do_not_matter(odd):
    """Not even to what counts as the same difference."""
    same, others = {2: 0.5, 3: 0.5}, {2: 0.5, 3: 0.9}
    assert paired_t({1: odd, **same}, {2: 0.4, 3: 0.4}) == paired_t(same, {2: 0.4, 3: 0.4})
    assert paired_t({1: odd, **others}, {2: 0.4, 3: 0.1}) == paired_t(others, {2: 0.4, 3: 0.1})


def test_mcnemar_counts_the_rows_that_divide():
    labels = ["a"] * 20
    first, second = ["a"] * 18 + ["b"] * 2, ["b"] * 9 + ["a"] * 11
    found = mcnemar(first, second, labels)
    # 9 rows right for the first alone, 2 for the second alone: twice the tail of 11 coin throws.
    tail = sum(math.comb(11, k) for k in range(3)) / 2**11
    assert found.p == pytest.approx(2 * tail)
    assert found.difference == pytest.approx(7 / 20)
    assert mcnemar(first, first, labels).p is None
    with pytest.raises(ValueError, match="same rows"):
        mcnemar(first, second[:3], labels)
    with pytest.raises(ValueError, match="same rows"):
        mcnemar([], [], [])


def test_bootstrap_interval_is_the_loops():
    dice = random.Random(0)
    labels = [dice.choice("ab") for _ in range(40)]
    first = [label if dice.random() < 0.9 else "x" for label in labels]
    second = [label if dice.random() < 0.6 else "x" for label in labels]
    found = paired_bootstrap(first, second, labels)
    gains = [(a == t) - (b == t) for a, b, t in zip(first, second, labels, strict=True)]
    drawn = sorted(sum(dice.choices(gains, k=40)) / 40 for _ in range(4000))
    assert found.difference == pytest.approx(sum(gains) / 40)
    assert found.low == pytest.approx(drawn[100], abs=0.04)
    assert found.high == pytest.approx(drawn[3900], abs=0.04)
    assert found == paired_bootstrap(first, second, labels)  # by seed
    assert paired_bootstrap(second, first, labels).difference == pytest.approx(-found.difference)
    assert paired_bootstrap(first, first, labels).p == 1.0


def test_bootstrap_p_is_of_both_sides_and_never_nothing():
    right, wrong = [True] * 9, [False] * 9
    assert paired_bootstrap(right, wrong, right).p == paired_bootstrap(wrong, right, right).p == 2 / 2001
    few = bootstrap_of([1.0, 0.0, -1.0], samples=1)
    assert few.low == few.high  # of the one that was drawn


def test_bootstrap_keeps_its_level():
    """Two models that are equally good: p below 5 % in about 5 % of the draws, not in 20."""
    low = 0
    for seed in range(200):
        dice = random.Random(seed)
        first, second = ([dice.random() < 0.7 for _ in range(80)] for _ in range(2))
        low += paired_bootstrap(first, second, [True] * 80, samples=400).p < 0.05
    assert low <= 22


def test_cost():
    run = [{"passes": {"forward": 3.0, "backward": 2.0}, "seconds_per_step": s, "peak_memory_mb": None} for s in (2, 4)]
    plain = [{"passes": {"forward": 1.0, "backward": 1.0}, "seconds_per_step": 1.5}]
    assert cost(run) == {"forward": 3.0, "backward": 2.0, "seconds_per_step": 3.0}
    assert cost_ratio(cost(run), cost(plain)) == {"forward": 3.0, "backward": 2.0, "seconds_per_step": 2.0}
    assert cost_ratio(cost(run), {}) == {}
    assert list(itertools.chain(cost([]))) == []
