"""Compare runs: spread over seeds, paired tests, cost."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import require


@dataclass(frozen=True)
class Summary:
    """Scores over seeds. `sd` is that of a sample (n - 1), and None for one seed."""

    count: int
    mean: float
    sd: float | None
    median: float

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.sd is None else f"{self.mean:.4f} ± {self.sd:.4f}"


@dataclass(frozen=True)
class PairedTestResult:
    """A paired comparison, first minus second. `p` is None where nothing can be tested; `why` then says so."""

    test: str
    count: int
    difference: float
    p: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and median of scores."""
    if not values:
        raise ValueError("there is no score to summarise.")
    if not all(map(math.isfinite, values)):  # which Python's own functions do not survive
        return Summary(len(values), math.nan, math.nan if len(values) > 1 else None, math.nan)
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Summary(len(values), statistics.fmean(values), sd, statistics.median(values))


def paired_t(first: Mapping[int, float], second: Mapping[int, float]) -> PairedTestResult:
    """Student's paired t test over the seeds that both have, with the 95 % interval of the mean difference."""
    seeds = sorted(first.keys() & second.keys())
    differences = [first[seed] - second[seed] for seed in seeds]
    name = "paired t over seeds"
    if not differences:
        return PairedTestResult(name, 0, math.nan, None, why="no seed in common")
    if not all(map(math.isfinite, differences)):
        return PairedTestResult(name, len(seeds), math.nan, None, why="a score is not a number")
    mean = statistics.fmean(differences)
    if len(differences) < 2:
        return PairedTestResult(name, 1, mean, None, why="one seed tells nothing about spread")
    largest = max(abs(scores[seed]) for scores in (first, second) for seed in seeds)
    if statistics.stdev(differences) <= 1e-12 * largest * math.sqrt(len(seeds)):  # 0.9 - 0.8 is not quite 0.8 - 0.7
        return PairedTestResult(name, len(seeds), mean, None, mean, mean, why="every seed has the same difference")
    test = require("scipy.stats", "tasks").ttest_1samp(differences, 0)
    low, high = test.confidence_interval(0.95)
    return PairedTestResult(name, len(seeds), mean, float(test.pvalue), float(low), float(high))


def mcnemar(first: Sequence[Any], second: Sequence[Any], labels: Sequence[Any]) -> PairedTestResult:
    """McNemar's exact test on the rows that one of two models gets right and the other wrong."""
    _same_length(first, second, labels)
    rights = [(a == label, b == label) for a, b, label in zip(first, second, labels, strict=True)]
    only_first, only_second = rights.count((True, False)), rights.count((False, True))
    discordant = only_first + only_second
    difference = (only_first - only_second) / len(rights)
    name = "McNemar, exact"
    if not discordant:
        return PairedTestResult(name, len(rights), difference, None, why="no row divides the two")
    p = float(require("scipy.stats", "tasks").binomtest(only_first, discordant, 0.5).pvalue)
    return PairedTestResult(name, len(rights), difference, p)


def paired_bootstrap(
    first: Sequence[Any], second: Sequence[Any], labels: Sequence[Any], *, samples: int = 2000, seed: int = 0
) -> PairedTestResult:
    """The 95 % interval of the difference in accuracy, both models drawn on the same rows; p by the sign of it.

    For other metrics than accuracy: `toughen.tasks.difference`.
    """
    import numpy as np

    _same_length(first, second, labels)
    y_true = np.asarray(labels)
    gain = (np.asarray(first) == y_true).astype(float) - (np.asarray(second) == y_true).astype(float)
    return bootstrap_of(gain, samples=samples, seed=seed)


def bootstrap_of(gains: Sequence[float], *, samples: int = 2000, seed: int = 0) -> PairedTestResult:
    """The same of differences by row: where several seeds answered a row, the mean over them is one difference."""
    import numpy as np

    gain = np.asarray(gains, dtype=float)
    rng = np.random.default_rng(seed)
    rows = len(gain)
    drawn = np.concatenate(
        [rng.multinomial(rows, np.full(rows, 1 / rows), size=min(256, samples - at)) @ gain / rows
         for at in range(0, samples, 256)]
    )  # fmt: skip
    low, high = np.quantile(drawn, [0.025, 0.975])
    tail = min(float((drawn <= 0).sum()), float((drawn >= 0).sum()))
    # One is added, so that no p is 0 for want of samples (Davison and Hinkley 1997, section 4.2).
    p = min(1.0, 2 * (tail + 1) / (samples + 1))
    return PairedTestResult("paired bootstrap", rows, float(gain.mean()), p, float(low), float(high))


def cost(seeds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a run's seeds cost: passes and seconds of a step, seconds of training, memory; means over seeds."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        passes: Mapping[str, Any] = seed.get("passes") or {}
        values = {"forward": passes.get("forward"), "backward": passes.get("backward")}
        values |= {key: seed.get(key) for key in ("seconds_per_step", "train_seconds", "peak_memory_mb")}
        for key, value in values.items():
            if value is not None:
                found.setdefault(key, []).append(float(value))
    return {key: statistics.fmean(values) for key, values in found.items()}


def cost_ratio(run: Mapping[str, float], plain: Mapping[str, float]) -> dict[str, float]:
    """Return the cost as a multiple of the other's, by each measure that both have."""
    return {key: run[key] / plain[key] for key in run if plain.get(key)}


def _same_length(first: Sequence[Any], second: Sequence[Any], labels: Sequence[Any]) -> None:
    sizes = (len(first), len(second), len(labels))
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(f"paired tests need the same rows: there are {sizes[0]}, {sizes[1]} and {sizes[2]} labels.")
