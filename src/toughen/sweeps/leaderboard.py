"""The rows of a sweep, best first, with mean and sd over seeds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .definition import Settings, format_settings, format_value
from .trials import Outcome, State

ORDER = ("done", "partial", "stopped", "failed", "missing")


@dataclass(frozen=True)
class Row:
    """One setting with all its seeds.

    Args:
        number: The number of the setting.
        settings: Its options.
        outcomes: Seed -> how the trial ended.
        rank: Its place on the leaderboard.

    Examples:
        >>> swept.rows[0].number, swept.rows[0].state
        (1, 'done')
    """

    number: int
    settings: Settings
    outcomes: dict[int, Outcome]
    rank: int | None = None

    @property
    def scores(self) -> dict[int, float]:
        """Map each finished seed to its score."""
        return self._scores("done")

    def _scores(self, state: State) -> dict[int, float]:
        reached = self.outcomes.items()
        return {seed: each.score for seed, each in reached if each.state == state and each.score is not None}

    @property
    def state(self) -> str:
        """Return `done` if all seeds are, `stopped` if one was."""
        states = {each.state for each in self.outcomes.values()}
        if states == {"done"}:
            return "done"
        if "stopped" in states:
            return "stopped"
        return "partial" if "done" in states else "failed" if "failed" in states else "missing"

    @property
    def mean(self) -> float | None:
        """Average the finished seeds; for a stopped row, the scores at which it was stopped."""
        scores = self.scores or self._scores("stopped")
        return statistics.fmean(scores.values()) if scores else None

    @property
    def sd(self) -> float | None:
        """Return the sample standard deviation; None for a single seed."""
        return statistics.stdev(self.scores.values()) if len(self.scores) > 1 else None

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.outcomes.values())

    @property
    def errors(self) -> list[str]:
        """List the errors of its seeds."""
        return [f"seed {seed}: {each.error}" for seed, each in self.outcomes.items() if each.state == "failed"]

    @property
    def score(self) -> str:
        """Format the mean and sd; a dash if there is none."""
        return "-" if self.mean is None else f"{self.mean:.4f}" + (f" ± {self.sd:.4f}" if self.sd is not None else "")

    def __str__(self) -> str:
        return f"{self.score} ({format_settings(self.settings)})"


def ranked(rows: Sequence[Row], sign: int) -> list[Row]:
    """Sort finished rows by mean, earlier rows first among equals, which share a rank; then the others by state."""
    by_mean = sorted(rows, key=lambda row: (ORDER.index(row.state), -sign * (row.mean or 0.0), row.number))
    ranks: dict[float | None, int] = {}
    for rank, row in enumerate(by_mean, 1):
        ranks.setdefault(row.mean, rank)
    return [replace(row, rank=ranks[row.mean] if row.state == "done" else None) for row in by_mean]


def table(rows: Sequence[Row], keys: Sequence[str], seeds: Sequence[int], metric: str) -> tuple[list[str], list[Any]]:
    """Return heads and cells. No times: the same sweep gives the same table, interrupted or not."""
    several = len(seeds) > 1
    each = [f"seed {seed}" for seed in seeds] if several else []
    heads = ["rank", "row", *keys, metric, *(["sd", *each] if several else []), "seeds", "state", "error"]
    cells: list[list[Any]] = []
    for row in rows:
        spread = [row.sd, *(row.scores.get(seed) for seed in seeds)] if several else []
        done = f"{len(row.scores)}/{len(seeds)}"
        settings = [row.settings.get(key) for key in keys]
        cells.append([row.rank, row.number, *settings, row.mean, *spread, done, row.state, "; ".join(row.errors)])
    return heads, cells


def shown(cell: object) -> str:
    """Format a cell for a reader."""
    return "" if cell is None else format_value(cell)
