"""The table as one page that needs nothing beside it, in the clothes of toughen's reports."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from toughen.reports.charts import Difference, forest
from toughen.reports.drawing import Drawing

from .sections import Part
from .summary import MEAN, Board, Value, clean, robust


def page(parts: Sequence[Part], boards: Mapping[tuple[str, str], Board]) -> str:
    style = (files("toughen.reports") / "templates" / "page.css").read_text(encoding="utf-8")
    drawn = [drawing for (model, head), board in boards.items() for drawing in drawings(board, f"{model}, {head}")]
    figures = "".join(drawing.inline(number) for number, drawing in enumerate(drawn))
    shown = f"<section><h2>Differences from plain</h2>{figures}</section>" if figures else ""
    body = "".join(map(_section, parts)) or "<section><p>No results yet: the runs have not been made.</p></section>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Leaderboard</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n"
        f'<header><p class="soft">toughen · leaderboard</p><h1>Every method, one protocol</h1></header>\n<main>\n'
        f"{shown}{body}</main>\n</body>\n</html>\n"
    )


def _section(part: Part) -> str:
    words = "".join(f'<p class="soft">{escape(line)}</p>' for line in part.words)
    table = ""
    if part.head:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in part.head)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in part.rows)
        table = (
            f'<div class="scroll" role="region" aria-label="{escape(part.title)}" tabindex="0"><table>'
            f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
        )
    return f"<section><h2>{escape(part.title)}</h2>{words}{table}</section>\n"


def drawings(board: Board, name: str) -> list[Drawing]:
    """The mean over tasks, clean and under attack: the first things to look at."""
    found: list[Drawing] = []
    kinds: list[tuple[str, Value]] = [("clean", clean), ("under PGD", robust("pgd_reference"))]
    for kind, value in kinds if set(board.protocol.mean_tasks) <= set(board.tasks) else ():
        rows = [
            Difference(method, pair.difference, pair.low, pair.high, pair.difference)
            for method, cell in board.column(MEAN, value).items()
            if (pair := cell.against) is not None
        ]
        if rows:
            title = f"{name}: mean of the tasks, {kind}"
            rows.sort(key=lambda row: -row.value)
            found.append(forest(title, rows, x="points; 95 % intervals, not corrected"))
    return found
