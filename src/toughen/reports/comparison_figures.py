"""Figures of runs side by side: differences with their intervals, and what a gain costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import INK, MARKERS, SERIES, SOFT, Drawing, canvas, plain


@dataclass(frozen=True)
class Difference:
    """One line of a forest plot; without an interval `low` and `high` are None."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    gain: float = 0.0
    """Above 0 where the difference is one for the better."""


def forest(title: str, rows: Sequence[Difference], *, x: str, note: str = "") -> Drawing:
    """Differences from the reference with their intervals: what does not touch the line is more than chance."""
    with canvas(title, x, note=note, wide=4.4, high=max(1.3, 0.26 * len(rows) + 0.8)) as (axes, drawn):
        for place, row in enumerate(rows):
            known = row.low is not None and row.high is not None
            clear = known and ((row.low or 0) > 0 or (row.high or 0) < 0)
            colour = SOFT if not clear else SERIES[2] if row.gain > 0 else SERIES[1]
            if known:
                axes.plot([row.low, row.high], [place, place], "-", color=colour, linewidth=1.8)
            marker = "o" if known else "|"
            axes.plot([row.value], [place], marker, color=colour, markersize=5 if known else 9)
        axes.axvline(0, color=INK, linewidth=1, linestyle=":")
        axes.set_yticks(range(len(rows)), [plain(row.name, 26) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
    return drawn[0]


def scatter(
    title: str, points: Mapping[str, tuple[float, Difference]], *, x: str, y: str, note: str = "", names: bool = True
) -> Drawing:
    """What is gained against what it costs; names and intervals where there is room. The reference is at (1, 0)."""
    with canvas(title, x, y, note=note, high=3.2) as (axes, drawn):
        axes.axhline(0, color=INK, linewidth=1, linestyle=":")
        axes.plot([1], [0], "*", color=INK, markersize=9)
        ranked = sorted(points.items(), key=lambda point: point[1][0])
        for number, (name, (cost, gain)) in enumerate(ranked):
            colour = SERIES[number % 8] if names else SERIES[0]
            if names and gain.low is not None and gain.high is not None:
                axes.plot([cost, cost], [gain.low, gain.high], "-", color=colour, linewidth=1)
            axes.plot([cost], [gain.value], MARKERS[number % 8 if names else 0], color=colour, markersize=5)
            if names:
                offset = (5, 4) if number % 2 else (5, -10)  # neighbours do not write over each other
                at: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": INK}
                axes.annotate(plain(name, 16), (cost, gain.value), offset, **at)
        axes.margins(x=0.18)
    return drawn[0]
