"""Figures of a report as inline SVG; colours that hold on light and dark ground."""

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import require

# Okabe and Ito's colours, told apart by people who do not see all of them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#B0A000")
GREY = "#808080"
Points = Sequence[tuple[float, float]]
Lines = Mapping[str, Points]

_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read out, searched and scaled
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#80808040",
    "legend.frameon": False,
    "svg.hashsalt": "toughen",  # the same numbers give the same file
}


def lines(title: str, series: Lines, *, x: str = "step", y: str = "", dashed: Sequence[str] = ()) -> str:
    """One line a series; those named in `dashed` are the baseline's."""
    with _axes(title, x, y) as (axes, drawn):
        for number, (name, points) in enumerate(series.items()):
            xs, ys = [p[0] for p in points], [p[1] for p in points]
            dots = "o" if len(points) < 12 else None
            style = "--" if name in dashed else "-"
            axes.plot(xs, ys, style, color=COLOURS[number % 8], marker=dots, markersize=4, label=_plain(name))
        if len(series) > 1:
            axes.legend(fontsize=8)
    return drawn[0]


def bars(title: str, groups: Mapping[str, Mapping[str, tuple[float, float, float]]], *, y: str = "") -> str:
    """Group -> name -> (value, low, high): bars side by side with their intervals."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    with _axes(title, "", y, wide=max(5.0, 0.28 * len(groups) * max(1, len(names)) + 2)) as (axes, drawn):
        width = 0.8 / max(1, len(names))
        for number, name in enumerate(names):
            found = [(place, group[name]) for place, group in enumerate(groups.values()) if name in group]
            xs = [place + (number - (len(names) - 1) / 2) * width for place, _ in found]
            values = [each[0] for _, each in found]
            reach = [[max(0.0, v - low) for _, (v, low, _) in found], [max(0.0, high - v) for _, (v, _, high) in found]]
            axes.bar(xs, values, width * 0.9, color=COLOURS[number % 8], label=_plain(name))
            axes.errorbar(xs, values, yerr=reach, fmt="none", ecolor=GREY, capsize=2, linewidth=1)
        axes.set_xticks(range(len(groups)), [_plain(group) for group in groups])
        axes.grid(axis="x", visible=False)
        if len(names) > 1:
            axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
            axes.set_title("")
    return drawn[0]


def confusion(title: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Labels down, answers across, shade by share of the label."""
    size = len(labels)
    with _axes(title, "answer", "label", max(3.6, 0.7 * size + 2), max(3.0, 0.6 * size + 1.4)) as (axes, drawn):
        shares = [[n / max(1, sum(row)) for n in row] for row in counts]
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for down, row in enumerate(counts):
            for across, number in enumerate(row):
                ink = "white" if shares[down][across] > 0.55 else "#303030"
                axes.text(across, down, str(number), ha="center", va="center", color=ink)
        short = [_plain(label if len(label) <= 16 else label[:15] + "…") for label in labels]
        axes.set_xticks(range(len(labels)), short, rotation=30 if len(labels) > 3 else 0)
        axes.set_yticks(range(len(labels)), short)
        axes.grid(visible=False)
    return drawn[0]


def reliability(title: str, runs: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Accuracy over confidence; the diagonal is a model that knows how sure it may be."""
    with _axes(title, "confidence", "accuracy", wide=3.8, high=3.4) as (axes, drawn):
        axes.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1)
        for number, (name, bins) in enumerate(runs.items()):
            some = [each for each in bins if each["rows"]]
            top = max((each["rows"] for each in some), default=1)
            sizes = [12 + 60 * each["rows"] / top for each in some]
            xs, ys = [each["confidence"] for each in some], [each["accuracy"] for each in some]
            axes.plot(xs, ys, "-", color=COLOURS[number % 8], linewidth=1, label=_plain(name))
            axes.scatter(xs, ys, s=sizes, color=COLOURS[number % 8])
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        if len(runs) > 1:
            axes.legend(fontsize=8)
    return drawn[0]


@contextmanager
def _axes(title: str, x: str, y: str, wide: float = 5.0, high: float = 3.0) -> Any:
    matplotlib = require("matplotlib", "plot")
    figure_class = require("matplotlib.figure", "plot").Figure  # no pyplot: no state, no window
    drawn: list[str] = []
    with matplotlib.rc_context(_STYLE):
        figure = figure_class(figsize=(min(wide, 9.0), high), layout="constrained")
        axes = figure.subplots()
        axes.set_title(_plain(title), fontsize=10)
        axes.set_xlabel(_plain(x))
        axes.set_ylabel(_plain(y))
        yield axes, drawn
        drawn.append(_svg(figure, title))


def _svg(figure: Any, title: str) -> str:
    """The drawing alone: no XML head, no date, no clear ground, as wide as its place, named for those who listen."""
    from markupsafe import escape

    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    width = re.search(r'width="([\d.]+)pt"', text)
    size = f"{float(width.group(1)) * 4 / 3:.0f}px" if width else "100%"
    text = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", text, count=1)
    text = re.sub(r'width="[\d.]+pt"', f'style="width:100%;max-width:{size};height:auto" role="img"', text, count=1)
    text = text.replace(">", f' aria-label="{escape(title)}">', 1)
    return re.sub(r'\s+xmlns:(?!xlink)\w+="[^"]*"', "", text)


def _plain(text: str) -> str:
    """Text as it stands: a dollar sign would start a formula."""
    return text.replace("$", r"\$")
