"""Tables and lines on the terminal; data is printed as it stands, never as markup."""

from collections.abc import Sequence
from typing import Any

from ..errors import require


def console() -> Any:
    """Where commands print."""
    return require("rich.console", "cli").Console(highlight=False)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """First column to the left, the others to the right."""
    text = require("rich.text", "cli").Text
    made = require("rich.table", "cli").Table(box=require("rich.box", "cli").SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        made.add_column(text(head), justify="right" if place else "left", overflow="fold", no_wrap=place > 0)
    for row in rows:
        made.add_row(*(text(cell) for cell in row))
    return made
