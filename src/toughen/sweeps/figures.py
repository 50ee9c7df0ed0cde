"""The figures of a sweep as inline SVG, in colours for light and dark backgrounds."""

import io
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import require
from ..reports.drawing import plain
from .definition import format_value
from .leaderboard import Row

GREY = "#808080"
STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read out, searched and scaled
    "svg.hashsalt": "toughen",  # the same numbers give the same file
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": GREY,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
SHADES = "cividis"  # legible for colour-blind readers
MOST = 12  # heat maps of a page


def parallel(rows: Sequence[Row], keys: Sequence[str], metric: str, sign: int) -> str:
    """Draw each row as a line through its settings and its score; better rows are brighter, the best is thick."""
    scored = [row for row in rows if row.mean is not None]
    names = [*keys, metric]
    with _axes(f"Parallel coordinates: {metric} by setting", max(5.0, 1.5 * len(names)), 3.4) as (axes, drawn):
        columns = [_scale([row.settings[key] for row in scored]) for key in keys]
        means = [row.mean or 0.0 for row in scored]
        columns.append(_scale(means, most=1))
        low, high = min(means), max(means)
        shades = require("matplotlib", "plot").colormaps[SHADES]
        for index in reversed(range(len(scored))):  # the best last, on top
            share = 0.5 if high == low else (means[index] - low) / (high - low)
            colour = shades(share if sign > 0 else 1 - share)
            heights = [column[0][index] for column in columns]
            axes.plot(range(len(names)), heights, color=colour, linewidth=3 if index == 0 else 1.3, alpha=0.9)
        for index, (_, ticks) in enumerate(columns):
            axes.axvline(index, color=GREY, linewidth=0.8)
            for height, text in ticks:
                axes.text(index + 0.03, height + 0.01, plain(text), va="bottom", fontsize=8)
        axes.set_xticks(range(len(names)), [plain(name) for name in names])
        axes.set_xlim(-0.15, len(names) - 0.6)
        axes.set_yticks([])
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
    return drawn[0]


def heat_maps(rows: Sequence[Row], keys: Sequence[str], metric: str) -> list[str]:
    """Draw a heat map for each pair of settings with few values: the mean of all rows that have both."""
    scored = [row for row in rows if row.mean is not None]
    values = {key: _distinct([row.settings[key] for row in scored]) for key in keys}
    alike: dict[tuple[int, ...], str] = {}  # tied settings make one map, not two
    for key in keys:
        if 2 <= len(values[key]) <= 20:
            alike.setdefault(tuple(values[key].index(row.settings[key]) for row in scored), key)
    few = list(alike.values())
    pairs = [(one, other) for index, one in enumerate(few) for other in few[index + 1 :]]
    drawn = [_heat(scored, pair, values, metric) for pair in pairs]
    return [each for each in drawn if each][:MOST]


def _heat(rows: Sequence[Row], pair: tuple[str, str], values: dict[str, list[Any]], metric: str) -> str:
    down, across = pair
    cells: list[list[float | None]] = []
    for one in values[down]:
        of_one = [row for row in rows if row.settings[down] == one]
        met = [[row.mean or 0.0 for row in of_one if row.settings[across] == other] for other in values[across]]
        cells.append([sum(each) / len(each) if each else None for each in met])
    known = [cell for line in cells for cell in line if cell is not None]
    if len(known) * 2 < len(cells) * len(cells[0]):
        return ""  # values drawn from a range: most cells are empty
    high = max(2.0, 0.42 * len(cells) + 1.2)
    with _axes(f"Heat map: {metric} by {down} and {across}", max(3.4, 0.8 * len(cells[0]) + 1.8), high) as (
        axes,
        drawn,
    ):
        filled = [[float("nan") if cell is None else cell for cell in line] for line in cells]
        axes.pcolormesh(filled, cmap=SHADES)  # vector shapes, not a bitmap in the SVG
        axes.invert_yaxis()
        middle = (min(known) + max(known)) / 2
        for row, line in enumerate(cells):
            for column, cell in enumerate(line):
                if cell is not None:
                    ink = "#101010" if cell > middle else "#f4f4f4"
                    axes.text(column + 0.5, row + 0.5, f"{cell:.3f}", ha="center", va="center", color=ink)
        for set_ticks, key in ((axes.set_xticks, across), (axes.set_yticks, down)):
            ticks = [index + 0.5 for index in range(len(values[key]))]
            set_ticks(ticks, [plain(format_value(value)) for value in values[key]])
        axes.set_xlabel(plain(across))
        axes.set_ylabel(plain(down))
    return drawn[0]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """List each value once: numbers sorted, others in order of appearance."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return sorted(found) if all(isinstance(value, (int, float)) for value in found) else found


def _scale(values: Sequence[Any], most: int = 8) -> tuple[list[float], list[tuple[float, str]]]:
    """Scale values to 0..1, with ticks: up to `most` values in even steps, more numbers by size."""
    found = _distinct(values)
    if len(found) <= most:
        even = {format_value(value): index / max(len(found) - 1, 1) for index, value in enumerate(found)}
        return [even[format_value(value)] for value in values], [(height, text) for text, height in even.items()]
    if not all(isinstance(value, (int, float)) for value in found):
        even = {format_value(value): index / (len(found) - 1) for index, value in enumerate(found)}
        return [even[format_value(value)] for value in values], []
    low, high = found[0], found[-1]
    return [(value - low) / (high - low) for value in values], [(0.0, format_value(low)), (1.0, format_value(high))]


@contextmanager
def _axes(title: str, wide: float, high: float) -> Generator[tuple[Any, list[str]]]:
    matplotlib = require("matplotlib", "plot")
    figure_class = require("matplotlib.figure", "plot").Figure  # no pyplot: no state, no window
    drawn: list[str] = []
    with matplotlib.rc_context(STYLE):
        figure = figure_class(figsize=(min(wide, 12.0), high), layout="constrained")
        yield figure.subplots(), drawn
        drawn.append(_svg(figure, title))


def _svg(figure: Any, title: str) -> str:
    """Export the figure without XML head, date and background, with a label for screen readers."""
    from markupsafe import escape

    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    box = re.search(r'viewBox="[^"]*"', text)
    head = f'<svg {box.group(0) if box else ""} role="img" aria-label="{escape(title)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)
