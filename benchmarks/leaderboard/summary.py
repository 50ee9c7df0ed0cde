"""The arithmetic of the table: means, paired differences, corrected p values. Nothing is rounded here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toughen.statistics import PairedTestResult, Summary, paired_t, summarise

from .journal import Row
from .protocol import PLAIN_TEXTS, Protocol

Seeds = Mapping[int, float]
Value = Callable[[Row], float | None]
MEAN = "mean"


@dataclass(frozen=True)
class Cell:
    """A method on a task, in points (hundredths): its scores over seeds, and its difference from another arm."""

    scores: Summary
    against: PairedTestResult | None = None
    holm: float | None = None
    """The p value corrected for the number of methods compared on this task (Holm 1979)."""

    @property
    def clear(self) -> int:
        """1 better, -1 worse after the correction, 0 not told apart."""
        if self.against is None or self.holm is None or self.holm >= 0.05:
            return 0
        return 1 if self.against.difference > 0 else -1


@dataclass(frozen=True)
class Board:
    """The final runs of one model with one head."""

    protocol: Protocol
    rows: Sequence[Row]

    @property
    def methods(self) -> list[str]:
        there = {row["method"] for row in self.rows}
        return [name for name in self.protocol.all_methods if name in there]

    @property
    def tasks(self) -> list[str]:
        there = {row["task"] for row in self.rows}
        return [task.name for task in self.protocol.all_tasks if task.name in there]

    def seeds(self, method: str, task: str, value: Value, times: int = 1) -> Seeds:
        """Scores in points by seed; of the mean only seeds that every one of its tasks has.

        The mean leaves out tasks on which no run has the score: attacks on texts have none of a regression.
        """
        if task == MEAN:
            known = {row["task"] for row in self.rows if value(row) is not None}
            parts = [self.seeds(method, name, value, times) for name in self.protocol.mean_tasks if name in known]
            shared = set[int]().union(*parts).intersection(*parts)
            return {seed: fmean(part[seed] for part in parts) for seed in sorted(shared)}
        found = {
            row["seed"]: value(row)
            for row in self.rows
            if (row["method"], row["task"], row["times"]) == (method, task, times)
        }
        return {seed: 100 * score for seed, score in found.items() if score is not None}

    def plain(self, task: str, value: Value, times: int = 1) -> Seeds:
        """Plain training's scores; those of its second runs where the first were not tested for it."""
        return self.seeds("plain", task, value, times) or self.seeds(PLAIN_TEXTS, task, value, times)

    def column(self, task: str, value: Value) -> dict[str, Cell]:
        """All methods on a task at equal epochs, each against plain; p values corrected over the methods.

        Methods on texts came later, as a family of their own: what was beyond noise before stays so.
        """
        plain = self.plain(task, value)
        pairs: dict[str, PairedTestResult] = {}
        scores: dict[str, Summary] = {}
        for method in self.methods:
            own = self.seeds(method, task, value)
            if own:
                scores[method] = summarise(list(own.values()))
            if own and plain and method != "plain":
                pairs[method] = paired_t(own, plain)
        corrected: dict[str, float] = {}
        for on_texts in (False, True):
            family = {name: pair.p for name, pair in pairs.items() if (name in self.protocol.text_methods) is on_texts}
            corrected |= holm({name: p for name, p in family.items() if p is not None})
        return {
            method: Cell(scores[method], pairs.get(method), corrected.get(method))
            for method in self.methods
            if method in scores
        }

    def cost(self, method: str) -> float | None:
        """Passes of a step in units of a plain one; the most, where tasks have settings of their own."""
        return max((row["passes"] for row in self.rows if row["method"] == method), default=None)

    def equal_compute(self, method: str, task: str, value: Value) -> tuple[int, PairedTestResult] | None:
        """Against plain for the least whole number of times its epochs that costs no less than the method."""
        passes = self.cost(method)
        if passes is None or method == "plain":
            return None
        times = max(1, math.ceil(passes - 0.05))
        own = self.seeds(method, task, value)
        plain = self.plain(task, value, times)
        return (times, paired_t(own, plain)) if own and plain else None

    def unequal_orders(self) -> list[tuple[str, int]]:
        """Task and seed whose runs did not all see the same batches: there must be none."""
        orders: dict[tuple[str, int], set[str]] = {}
        for row in self.rows:
            orders.setdefault((row["task"], row["seed"]), set()).add(row["order"])
        return [key for key, seen in orders.items() if len(seen) > 1]


def clean(row: Row) -> float | None:
    return row["value"]


def robust(name: str) -> Value:
    """A score of `row["robust"]`, where the run has it."""
    return lambda row: row["robust"].get(name)


def holm(p_values: Mapping[Any, float]) -> dict[Any, float]:
    """Holm's step-down correction: the family's chance of one false finding stays at the level."""
    corrected: dict[Any, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: pair[1])):
        highest = max(highest, min(1.0, p * (len(p_values) - rank)))
        corrected[name] = highest
    return corrected


def boards(rows: Sequence[Row], protocol: Protocol) -> dict[tuple[str, str], Board]:
    """By model and head."""
    final = [row for row in rows if row["purpose"] == "board"]
    keys = dict.fromkeys((row["model"], row["head"]) for row in final)
    return {key: Board(protocol, [row for row in final if (row["model"], row["head"]) == key]) for key in keys}
