"""Figures of robustness: accuracy under attack, what an adversary hides, the spectrum of a second-order head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import MARKERS, SERIES, Drawing, canvas, plain
from .figures import legend, tinted


@dataclass(frozen=True)
class Band:
    """A line with its interval: x, value, low, high; `dashed` lines are a comparison of the one above them."""

    points: Sequence[tuple[float, float, float, float]]
    dashed: bool = False
    colour: int = 0


def curves(title: str, bands: Mapping[str, Band], *, x: str, y: str, note: str = "") -> Drawing:
    """Scores against the strength of an attack, with their intervals."""
    with canvas(title, x, y, note=note, high=2.4 + 0.15 * len(bands)) as (axes, drawn):
        for name, band in bands.items():
            xs, values, lows, highs = (list(column) for column in zip(*band.points, strict=True))
            colour, style = SERIES[band.colour % 8], "--" if band.dashed else "-"
            marker = None if band.dashed else MARKERS[band.colour % 8]
            axes.plot(xs, values, style, color=colour, marker=marker, markersize=4, label=plain(name, 40))
            if not band.dashed:
                axes.fill_between(xs, lows, highs, color=colour, alpha=0.14, linewidth=0)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        legend(axes, bands)
    return drawn[0]


def attention(
    title: str, tokens: Sequence[str], clean: Any, bent: Any, hidden: Sequence[Sequence[int]], *, note: str = ""
) -> Drawing:
    """Attention of one text as it is and under the adversary, hidden pairs crossed out."""
    top = max((max(row) for weights in (clean, bent) for row in weights), default=1.0)
    names = [plain(token, 12) for token in tokens]
    high = 2 * min(0.19, 2.9 / max(1, len(names))) * len(names) + 1.7
    with canvas(title, "", "from", note=note, high=high, rows=2) as (both, drawn):
        for axes, weights, name in zip(both, (clean, bent), ("clean", "under the adversary"), strict=True):
            axes.imshow(tinted(weights, top), interpolation="none")
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
    """Singular values by rank, before and after normalisation: mean over texts, and the middle 80 % of them."""
    with canvas(title, "rank of the singular value", "singular value", note=note) as (axes, drawn):
        top = max((max(values["high"], default=0.0) for values in parts.values()), default=0.0) or 1.0
        for number, (name, values) in enumerate(parts.items()):
            ranks, floor = range(1, len(values["mean"]) + 1), 1e-5 * top  # what is smaller is rounding
            mean, low, high = ([max(each, floor) for each in values[key]] for key in ("mean", "low", "high"))
            colour = SERIES[number % 8]
            axes.plot(ranks, mean, "--" if number else "-", color=colour, label=plain(name, 40))
            axes.fill_between(ranks, low, high, color=colour, alpha=0.14, linewidth=0)
        axes.set_yscale("log")
        legend(axes, parts)
    return drawn[0]
