"""Tables and lines on the terminal; data is printed as it stands, never as markup."""

import os
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ..errors import require


def console() -> Any:
    """Where commands print. A file or pipe has no width: lines are whole there, unless COLUMNS says otherwise."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    return require("rich.console", "cli").Console(highlight=False, width=width)


def span(score: Mapping[str, Any]) -> str:
    """A score with its interval, where it has one."""
    shown = f"{score['value']:.4f}"
    return shown if score["low"] is None else f"{shown} ({score['low']:.3f} to {score['high']:.3f})"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Container[int] = (0,)) -> Any:
    """First column to the left, the others to the right; `folds` are the columns that give way on a narrow terminal."""
    text = require("rich.text", "cli").Text
    made = require("rich.table", "cli").Table(box=require("rich.box", "cli").SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        made.add_column(text(head), justify="right" if place else "left", overflow="fold", no_wrap=place not in folds)
    for row in rows:
        made.add_row(*(text(cell) for cell in row))
    return made
