"""The charts of a page: training curves, bars, intervals, calibration, attention, spectra."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import INK, MARKERS, SERIES, SOFT, WIDE, Drawing, figure, in_points, plain, tip
from .formatting import format_interval, format_score

Interval = tuple[float, float, float]  # value, low, high
LEAST_SPAN = 0.2  # of an axis, as a share of its largest value
MOST_POINTS = 600
BLUE = (0.0, 0.447, 0.698)


def _line(
    axes: Any, number: int, name: str, xs: Sequence[float], ys: Sequence[float], *, dashed: bool, markers: bool = False
) -> str:
    """Draw a line in the colour and with the markers of its number, and return the colour."""
    colour, marker = SERIES[number % 8], MARKERS[number % 8] if markers else None
    axes.plot(xs, ys, "--" if dashed else "-", color=colour, marker=marker, markersize=4, label=plain(name, 40))
    return colour


def _tips(axes: Any, name: str, xs: Sequence[float], ys: Sequence[float], *, points: bool) -> None:
    """Lay marks that cannot be seen over the points of a line, each with its numbers."""
    for x, y in zip(xs, ys, strict=True):
        (mark,) = axes.plot([x], [y], "o", markersize=9, alpha=0)
        tip(mark, f"{name}: {_number(y, points)} at {x:g}")


def _number(value: float, points: bool, sign: str = "") -> str:
    return format_score(value, sign=sign) if points else f"{value:{sign}.4g}"


def _band(axes: Any, xs: Sequence[float], scores: Sequence[Interval], colour: str) -> None:
    axes.fill_between(
        xs, [low for _, low, _ in scores], [high for _, _, high in scores], color=colour, alpha=0.14, linewidth=0
    )


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str = "step",
    y: str = "",
    dashed: Sequence[str] = (),
    note: str = "",
    points: bool = False,
    scale: tuple[float, float] | None = None,
) -> Drawing:
    """Draw one line for each series; those named in `dashed` are the baseline's; `scale` is the whole axis."""
    with figure(title, x, y, note=note) as (axes, drawn):
        for number, (name, line) in enumerate(series.items()):
            xs, ys = [p[0] for p in line], [p[1] for p in line]
            _line(axes, number, name, xs, ys, dashed=name in dashed, markers=len(line) < 12)
            if len(line) < 12:
                _tips(axes, name, xs, ys, points=points)
        if points:
            in_points(axes.yaxis)
        values = [value for line in series.values() for _, value in line]
        low, top = min(values, default=0.0), max(values, default=0.0)
        least = LEAST_SPAN * max(abs(low), abs(top))
        if scale:
            axes.set_ylim(min(low, scale[0]), max(top, scale[1]))
        elif top - low < least:  # noise is no curve
            axes.set_ylim((low + top - least) / 2, (low + top + least) / 2)
    return drawn[0]


def bars(
    title: str, groups: Mapping[str, Mapping[str, Interval]], *, y: str = "", note: str = "", points: bool = False
) -> Drawing:
    """Draw groups of bars side by side with their intervals."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    wide = min(8.4, max(WIDE, 0.26 * len(groups) * max(1, len(names)) + 1.5, 0.62 * len(groups) + 1))
    with figure(title, "", y, note=note, wide=wide) as (axes, drawn):
        width = 0.8 / max(1, len(names))
        for number, name in enumerate(names):
            scores = [(index, group[name]) for index, group in enumerate(groups.values()) if name in group]
            xs = [index + (number - (len(names) - 1) / 2) * width for index, _ in scores]
            values = [value for _, (value, _, _) in scores]
            drawn_bars = axes.bar(xs, values, width * 0.86, color=SERIES[number % 8], label=plain(name, 40))
            for bar, value in zip(drawn_bars, values, strict=True):
                tip(bar, f"{name}: {_number(value, points)}")
            below = [max(0.0, value - low) for _, (value, low, _) in scores]
            above = [max(0.0, high - value) for _, (value, _, high) in scores]
            axes.errorbar(xs, values, yerr=[below, above], fmt="none", ecolor=INK, capsize=2, lw=0.9)
        if points:
            in_points(axes.yaxis)
        axes.set_xticks(range(len(groups)), [plain(group, 18) for group in groups])
        if len(groups) > 4:
            axes.tick_params(axis="x", rotation=25)
        axes.grid(axis="x", visible=False)
    return drawn[0]


def ratios(title: str, values: Mapping[str, float]) -> Drawing:
    """Draw multiples of plain fine-tuning as horizontal bars."""
    with figure(title, "times plain", high=0.42 * len(values) + 0.7) as (axes, drawn):
        positions = range(len(values))
        axes.barh(positions, list(values.values()), 0.6, color=SERIES[0])
        for index, value in zip(positions, values.values(), strict=True):
            at = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8.5}
            axes.annotate(f"{value:.2f}x", (value, index), **at)
        axes.axvline(1, color=INK, linewidth=1, linestyle=":")
        axes.set_yticks(positions, [plain(name) for name in values])
        axes.set_xlim(0, max(1.0, *values.values()) * 1.2)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
    return drawn[0]


def blue_shades(shares: Sequence[Sequence[float]], top: float = 1.0) -> list[list[tuple[float, float, float, float]]]:
    """Return shares as one colour of different strength, clear at 0: it fits any background."""
    return [[(*BLUE, min(1.0, max(0.0, share / (top or 1.0)))) for share in row] for row in shares]


def confusion(title: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Drawing:
    """Draw counts, labels down and answers across, shaded by share of the label."""
    size = len(labels)
    wide, high = max(WIDE, 0.42 * size + 1.5), max(2.6, 0.36 * size + 1.1)
    with figure(title, "answer", "label", wide=wide, high=high) as (axes, drawn):
        shares = [[n / max(1, sum(row)) for n in row] for row in counts]
        axes.imshow(blue_shades(shares), aspect="auto", interpolation="none")
        for down, row in enumerate(counts):
            for across, number in enumerate(row):
                if number:
                    ink = "#ffffff" if shares[down][across] > 0.5 else INK
                    axes.text(across, down, str(number), ha="center", va="center", color=ink, fontsize=8.5)
        names = [plain(label, 16) for label in labels]
        axes.set_xticks(range(size), names, rotation=30 if size > 3 else 0)
        axes.set_yticks(range(size), names)
        axes.grid(visible=False)
    return drawn[0]


def reliability(title: str, arms: Mapping[str, Sequence[Mapping[str, float]]], *, note: str = "") -> Drawing:
    """Draw accuracy over confidence; the diagonal is a model that knows how sure it may be."""
    with figure(title, "confidence", "accuracy", note=note, high=3.2) as (axes, drawn):
        axes.plot([0, 1], [0, 1], ":", color=SOFT, linewidth=1)
        for number, (name, bins) in enumerate(arms.items()):
            some = [each for each in bins if each["rows"]]
            top = max((each["rows"] for each in some), default=1)
            sizes = [10 + 60 * each["rows"] / top for each in some]
            xs, ys = [each["confidence"] for each in some], [each["accuracy"] for each in some]
            colour, style = SERIES[number % 8], "-" if number == 0 else "--"
            axes.plot(xs, ys, style, color=colour, linewidth=1.2, label=plain(name, 40))
            axes.scatter(xs, ys, s=sizes, color=colour, marker=MARKERS[number % 8])
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
    return drawn[0]


def agreement(title: str, models: Mapping[str, Sequence[tuple[float, float]]], *, note: str = "") -> Drawing:
    """Draw the answers of a regression over the labels, of many rows some at even distances."""
    with figure(title, "label", "answer", note=note, high=3.2) as (axes, drawn):
        labels = [label for amounts in models.values() for label, _ in amounts]
        axes.plot([min(labels), max(labels)], [min(labels), max(labels)], ":", color=SOFT, linewidth=1)
        for number, (name, amounts) in enumerate(models.items()):
            shown = amounts[:: -(-len(amounts) // MOST_POINTS)]
            style = {"s": 9, "color": SERIES[number % 8], "marker": MARKERS[number % 8], "alpha": 0.7}
            axes.scatter([label for label, _ in shown], [answer for _, answer in shown], label=plain(name, 40), **style)
    return drawn[0]


@dataclass(frozen=True)
class Difference:
    """One line of a forest plot; without an interval `low` and `high` are None."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    gain: float = 0.0
    """Above 0 where the difference is one for the better."""


def forest(title: str, rows: Sequence[Difference], *, x: str, note: str = "", points: bool = False) -> Drawing:
    """Draw differences from the reference with their intervals: what does not touch the line is more than chance."""
    with figure(title, x, note=note, wide=4.4, high=max(1.3, 0.26 * len(rows) + 0.8)) as (axes, drawn):
        for index, row in enumerate(rows):
            known = row.low is not None and row.high is not None
            clear = known and ((row.low or 0) > 0 or (row.high or 0) < 0)
            colour = SOFT if not clear else SERIES[2] if row.gain > 0 else SERIES[1]
            if known:
                axes.plot([row.low, row.high], [index, index], "-", color=colour, linewidth=1.8)
            marker = "o" if known else "|"
            (mark,) = axes.plot([row.value], [index], marker, color=colour, markersize=5 if known else 9)
            tip(mark, _describe(row, points))
        if points:
            in_points(axes.xaxis)
        axes.axvline(0, color=INK, linewidth=1, linestyle=":")
        axes.set_yticks(range(len(rows)), [plain(row.name, 26) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
    return drawn[0]


def _describe(row: Difference, points: bool) -> str:
    text = f"{row.name}: {_number(row.value, points, '+')}"
    if row.low is None or row.high is None:
        return text
    ends = format_interval(row.low, row.high, sign="+") if points else f"{row.low:+.4g} to {row.high:+.4g}"
    return f"{text}, 95 % interval {ends}"


def scatter(
    title: str,
    marks: Mapping[str, tuple[float, Difference]],
    *,
    x: str,
    y: str,
    note: str = "",
    names: bool = True,
    points: bool = False,
) -> Drawing:
    """Draw gain against cost; names and intervals where there is room. The reference is at (1, 0)."""
    with figure(title, x, y, note=note, high=3.2) as (axes, drawn):
        axes.axhline(0, color=INK, linewidth=1, linestyle=":")
        axes.plot([1], [0], "*", color=INK, markersize=9)
        ranked = sorted(marks.items(), key=lambda mark: mark[1][0])
        if points:
            in_points(axes.yaxis)
        for number, (name, (cost, gain)) in enumerate(ranked):
            colour = SERIES[number % 8] if names else SERIES[0]
            if names and gain.low is not None and gain.high is not None:
                axes.plot([cost, cost], [gain.low, gain.high], "-", color=colour, linewidth=1)
            (mark,) = axes.plot([cost], [gain.value], MARKERS[number % 8 if names else 0], color=colour, markersize=5)
            tip(mark, f"{_describe(gain, points)}, at {cost:.2g} times the time")
            if names:
                offset = (5, 4) if number % 2 else (5, -10)  # neighbours do not write over each other
                at: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": INK}
                axes.annotate(plain(name, 16), (cost, gain.value), offset, **at)
        axes.margins(x=0.18)
    return drawn[0]


@dataclass(frozen=True)
class Band:
    """A line with its intervals; `dashed` lines are a comparison of the one above them."""

    points: Sequence[tuple[float, Interval]]
    dashed: bool = False
    colour: int = 0


def curves(title: str, bands: Mapping[str, Band], *, x: str, y: str, note: str = "", points: bool = False) -> Drawing:
    """Draw scores against the strength of an attack, with their intervals."""
    with figure(title, x, y, note=note, high=2.4 + 0.15 * len(bands)) as (axes, drawn):
        for name, band in bands.items():
            xs, scores = [x for x, _ in band.points], [score for _, score in band.points]
            values = [value for value, _, _ in scores]
            colour = _line(axes, band.colour, name, xs, values, dashed=band.dashed, markers=not band.dashed)
            if not band.dashed:
                _band(axes, xs, scores, colour)
            _tips(axes, name, xs, values, points=points)
        if points:
            in_points(axes.yaxis)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.locator_params(axis="x", nbins=5)  # radii have many digits
    return drawn[0]


def attention(
    title: str, tokens: Sequence[str], clean: Any, perturbed: Any, hidden: Sequence[Sequence[int]], *, note: str = ""
) -> Drawing:
    """Draw attention of one text as it is and under the adversary, hidden pairs crossed out."""
    top = max((max(row) for weights in (clean, perturbed) for row in weights), default=1.0)
    names = [plain(token, 12) for token in tokens]
    high = 2 * min(0.19, 2.9 / max(1, len(names))) * len(names) + 1.7
    with figure(title, "", "from", note=note, high=high, rows=2) as (both, drawn):
        for axes, weights, name in zip(both, (clean, perturbed), ("clean", "under the adversary"), strict=True):
            axes.imshow(blue_shades(weights, top), interpolation="none")
            axes.set_title(name, fontsize=8.5)
            axes.set_xticks(range(len(names)), names if axes is both[1] else [], rotation=90, fontsize=7)
            axes.set_yticks(range(len(names)), names, fontsize=7)
            axes.grid(visible=False)
        if hidden:
            rows, columns = [pair[0] for pair in hidden], [pair[1] for pair in hidden]
            both[1].scatter(columns, rows, marker="x", s=14, color=SERIES[1], linewidths=1)
        both[1].set_xlabel("attended to")
    return drawn[0]


def spectrum(title: str, parts: Mapping[str, Mapping[str, Sequence[float]]], *, note: str = "") -> Drawing:
    """Draw singular values by rank, before and after normalisation: mean over texts, and the middle 80 % of them."""
    with figure(title, "rank of the singular value", "singular value", note=note) as (axes, drawn):
        top = max((max(values["high"], default=0.0) for values in parts.values()), default=0.0) or 1.0
        for number, (name, values) in enumerate(parts.items()):
            ranks, floor = range(1, len(values["mean"]) + 1), 1e-5 * top  # what is smaller is rounding
            mean, low, high = ([max(each, floor) for each in values[key]] for key in ("mean", "low", "high"))
            colour = _line(axes, number, name, ranks, mean, dashed=number > 0)
            _band(axes, ranks, list(zip(mean, low, high, strict=True)), colour)
        axes.set_yscale("log")
    return drawn[0]
