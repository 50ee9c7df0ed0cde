"""Drawings as SVG: colours by name, so that one drawing serves light and dark pages and files of its own."""

import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from ..errors import require

# Stand-ins that matplotlib takes for colours; each becomes a variable of the page, or the light colour in a file.
INK, SOFT, RULE = "#0a0b01", "#0a0b02", "#0a0b03"
SERIES = tuple(f"#0a0b1{number}" for number in range(8))
# After Okabe and Ito: distinct for colour-blind readers; darkened to 3:1 on a light background.
_LIGHT = ("#0072b2", "#d55e00", "#008a64", "#b25a8e", "#b07d00", "#2e8fcb", "#6b7280", "#857600")
_DARK = ("#4da6e6", "#f5823a", "#2fc79b", "#e39cc6", "#e9b23c", "#86cdf7", "#a6afbd", "#cfc04a")
COLOURS = {
    INK: ("ink", "#1a2029", "#e7eaef"),
    SOFT: ("soft", "#59626f", "#a6afbd"),
    RULE: ("rule", "#dfe3e8", "#2d333d"),
} | {
    stand_in: (f"c{number}", light, dark)
    for number, (stand_in, light, dark) in enumerate(zip(SERIES, _LIGHT, _DARK, strict=True))
}
GROUND = ("#ffffff", "#12151a")
MARKERS = "osD^vPXh"
WIDE, HIGH = 4.0, 2.6  # inches: a column of the page, and the width of a telephone

_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read out, searched and scaled
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "axes.formatter.useoffset": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "toughen",  # the same numbers give the same file
}


@dataclass(frozen=True)
class Drawing:
    """A figure: its title and a word on how to read it stand in the page, not in the drawing."""

    title: str
    svg: str
    note: str = ""
    wide: bool = False

    def inline(self, number: int) -> str:
        """Return it for a page: colours are the page's variables, names its own, as a page may hold many drawings."""
        text = self.svg
        for stand_in, (name, *_) in COLOURS.items():
            text = text.replace(stand_in, f"var(--{name})")
        return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>d{number}-", text)

    def file(self) -> str:
        """Return it for a file of its own: light, and dark where a browser shows it to a reader who wants that.

        The colours stand in the drawing itself, since other programs know no variables.
        """
        text = self.svg
        dark = [f"svg{{background:{GROUND[1]}}}"]
        for stand_in, (_, light, other) in COLOURS.items():
            kinds = [kind for kind in ("fill", "stroke") if f"{kind}: {stand_in}" in text]
            dark += [f'[style*="{kind}: {light}"]{{{kind}:{other}!important}}' for kind in kinds]
            text = text.replace(stand_in, light)
        style = f"<style>svg{{background:{GROUND[0]}}}@media(prefers-color-scheme:dark){{{''.join(dark)}}}</style>"
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return text.replace(">", f" {names}>{style}", 1)


def tip(artist: Any, text: str) -> None:
    """Say what a mark is when the mouse is over it."""
    artist.set_gid(f"tip={quote(text)}")


def in_points(axis: Any) -> None:
    """Number an axis of shares in points of 100, as the tables do."""

    def number(value: float, _position: int) -> str:
        return f"{100 * value:.4g}"

    axis.set_major_formatter(number)


@contextmanager
def figure(
    title: str, x: str = "", y: str = "", *, note: str = "", wide: float = WIDE, high: float = HIGH, rows: int = 1
) -> Generator[tuple[Any, list[Drawing]]]:
    """Yield axes, or several below each other, and a list that holds the drawing afterwards."""
    matplotlib = require("matplotlib", "plot")
    figure_class = require("matplotlib.figure", "plot").Figure  # no pyplot: no state, no window
    drawn: list[Drawing] = []
    with matplotlib.rc_context(_STYLE):
        figure = figure_class(figsize=(wide, high), layout="constrained")
        axes = figure.subplots(rows, 1)
        for each in [axes] if rows == 1 else axes:
            each.set_xlabel(plain(x))
            each.set_ylabel(plain(y))
        yield axes, drawn
        if rows == 1:
            _legend(axes)
        drawn.append(Drawing(title, _svg(figure, title), note, wide > 1.3 * WIDE))


def _legend(axes: Any) -> None:
    """Name the lines above the axes, where it hides nothing; in two columns if the names are short."""
    names: list[str] = axes.get_legend_handles_labels()[1]
    if len(names) > 1:
        columns = 2 if len(names) > 3 and max(map(len, names)) <= 21 else 1
        where = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "ncols": columns}
        axes.legend(**where, borderpad=0, labelspacing=0.3)


def _svg(figure: Any, title: str) -> str:
    """Save the drawing alone, without XML head, date, background and unused names, with a label for screen readers."""
    from markupsafe import escape

    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<g id=\"patch_1\">.*?</g>", "", text, flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', text)
    width = float(box.group(1).split()[2]) * 4 / 3 if box else 400
    head = f'<svg viewBox="{box.group(1) if box else ""}" style="max-width:{1.2 * width:.0f}px" role="img" '
    text = re.sub(r"<svg[^>]*>", lambda _: f'{head}aria-label="{escape(title)}">', text, count=1)
    text = re.sub(r'<g id="tip=([^"]*)">', lambda tip: f"<g><title>{escape(unquote(tip[1]))}</title>", text)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in used else "", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size:\1px", text)
    # Two places of a pixel are more than a screen has.
    text = re.sub(r'( (?:d|x|y|transform)=")([^"]*)', _round, text)
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def _round(attribute: re.Match[str]) -> str:
    return attribute[1] + re.sub(r"(\.\d\d)\d+", r"\1", attribute[2]).replace("\n", "")


def plain(text: str, longest: int = 0) -> str:
    """Return text that matplotlib takes literally: a dollar sign would start a formula; cut to `longest` letters."""
    short = text if not longest or len(text) <= longest else text[: longest - 1] + "…"
    return short.replace("$", r"\$")
