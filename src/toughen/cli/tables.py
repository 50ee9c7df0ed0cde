"""Lines and tables on the terminal; data is printed as it stands, never as markup."""

import os
import re
import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from ..errors import require

if TYPE_CHECKING:
    from ..evaluation import Evaluation

SEED = re.compile(r"(.*?)-?(seed|baseline)-(\d+)$")


def model_names(evaluations: "Sequence[tuple[str, Evaluation]]") -> tuple[str, list[str]]:
    """Return the head of a column and the names in it; the rows that all seeds were scored on are the head."""
    matches = [match for _, each in evaluations if (match := SEED.match(each.name))]
    shared = {match[1] for match in matches}
    if len(matches) < max(2, len(evaluations)) or len(shared) > 1:
        head, names = "evaluation", [each.name for _, each in evaluations]
    else:
        head = shared.pop() or "evaluation"
        names = [f"{'plain, ' * (match[2] == 'baseline')}seed {match[3]}" for match in matches]
    many = len({path for path, _ in evaluations}) > 1
    return head, [f"{path} · {name}" if many else name for (path, _), name in zip(evaluations, names, strict=True)]


def span(value: float | None, low: float | None, high: float | None) -> str:
    """Return a score with its interval, where it has one."""
    return f"{value:.4f}" if low is None else f"{value:.4f} ({low:.3f} to {high:.3f})"


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Container[int] = (0,)) -> None:
    """First column to the left, the others to the right; `folds` are the columns that give way on a narrow terminal."""
    text = require("rich.text", "cli").Text
    # A file or pipe has no width: lines are whole there, unless COLUMNS says otherwise.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    table = require("rich.table", "cli").Table(box=require("rich.box", "cli").SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        side = "right" if number else "left"
        table.add_column(text(head), justify=side, overflow="fold", no_wrap=number not in folds)
    for row in rows:
        table.add_row(*(text(cell) for cell in row))
    require("rich.console", "cli").Console(highlight=False, width=width).print(table)
