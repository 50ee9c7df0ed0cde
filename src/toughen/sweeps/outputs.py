"""The files of a sweep beside its trials: leaderboard.csv, .md, .html, and best.yaml."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import count_of
from ..internal.atomic import write_text
from ..internal.markdown import line
from ..reports.formatting import format_score
from ..reports.render import Card, render
from ..runs.config_io import to_yaml
from ..runs.progress import format_duration
from .controller import Controller
from .definition import format_settings
from .figures import draw
from .leaderboard import Row, shown, table
from .trials import trial_config, trial_folder


def write_tables(controller: Controller) -> None:
    """Write the tables and the best config; called after every trial."""
    folder, given = controller.folder.path, controller.definition
    heads, cells = table(controller.rows(), given.keys, given.seeds, controller.metric)
    write_text(folder / "leaderboard.csv", as_csv(heads, cells))
    write_text(folder / "leaderboard.md", as_markdown(heads, cells))
    if best := _best_yaml(controller):
        write_text(folder / "best.yaml", best)


def as_csv(heads: Sequence[str], cells: Sequence[Sequence[Any]]) -> str:
    """Format as CSV, with every digit."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *([_inert(cell) for cell in row] for row in cells)])
    return out.getvalue()


def _inert(cell: Any) -> Any:
    """Quote text that a spreadsheet would read as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def as_markdown(heads: Sequence[str], cells: Sequence[Sequence[Any]]) -> str:
    """Format as Markdown, with four digits."""
    lines = [heads, ["---"] * len(heads), *([shown(cell) for cell in row] for row in cells)]
    return "".join(f"{line(each)}\n" for each in lines)


def _best_yaml(controller: Controller) -> str:
    """Return the config of the best row with all seeds; empty if no row is done."""
    best, given = controller.best, controller.definition
    if best is None:
        return ""
    return to_yaml(trial_config(given.base, best.settings, given.seeds)).replace("config.yaml", "best.yaml", 1)


def write_page(controller: Controller) -> None:
    """Write the page with the figures, in the look of the reports; called at the end."""
    given, rows = controller.definition, controller.rows()
    heads, cells = _scores(rows, *table(rows, given.keys, given.seeds, controller.metric), controller.metric)
    page = render(
        "leaderboard.html",
        Path(__file__).parent,
        kind="sweep",
        title=f"Sweep {controller.folder.path.resolve().name}",
        verdicts=_verdicts(controller),
        cards=_cards(controller),
        heads=heads,
        rows=[(each, _links(controller, row)) for row, each in zip(rows, cells, strict=True)],
        drawings=draw(rows, given.keys, controller.metric, given.sign),
        failures=[(row.number, format_settings(row.settings), row.errors) for row in rows if row.errors],
        best=_best_yaml(controller).partition("\n")[2],
    )
    write_text(controller.folder.path / "leaderboard.html", page)


def _links(controller: Controller, row: Row) -> list[tuple[str, str]]:
    """Return the name and the address of each trial's page that is there, beside the sweep's own page."""
    pages = {seed: trial_folder(row.number, seed) / "report.html" for seed in row.outcomes}
    there = {seed: page for seed, page in pages.items() if (controller.folder.path / page).is_file()}
    return [(f"seed {seed}", page.as_posix()) for seed, page in there.items()]


def _scores(
    rows: Sequence[Row], heads: Sequence[str], cells: Sequence[Sequence[Any]], metric: str
) -> tuple[list[str], list[list[tuple[Any, str]]]]:
    """Return heads, and cells as values to sort by and texts: scores in points, the mean with its deviation."""
    empty = {"sd", *(["error"] if not any(row.errors for row in rows) else [])}  # the mean has its sd beside it
    kept = [(index, head) for index, head in enumerate(heads) if head not in empty]
    seeds = {head for head in heads if head.startswith("seed ")}

    def text(row: Row, head: str, cell: Any) -> str:
        if head == metric:
            return format_score(cell, metric, row.sd)
        return format_score(cell, metric) if head in seeds else shown(cell)

    shown_rows = [
        [(line[index], text(row, head, line[index])) for index, head in kept]
        for row, line in zip(rows, cells, strict=True)
    ]
    return [head if head != metric else f"{metric}, mean ± sd" for _, head in kept], shown_rows


def _verdicts(controller: Controller) -> list[str]:
    """Return in a sentence which setting to take, and whether the next one differs."""
    best = controller.best
    if best is None or best.mean is None:
        return []
    metric, sd = controller.metric, best.sd
    text = f"Take {format_settings(best.settings)}: {metric} {format_score(best.mean, metric, sd)}."
    others = [
        row for row in controller.rows() if row.state == "done" and row.number != best.number and row.mean is not None
    ]
    if sd is None:
        return [f"{text} One seed says nothing about chance: give several seeds."]
    near = [row for row in others if abs((row.mean or 0.0) - best.mean) <= sd]
    if not near:
        return [text]
    number = "another setting is" if len(near) == 1 else f"{len(near)} other settings are"
    return [f"{text} {number[0].upper()}{number[1:]} within one standard deviation of it."]


def _cards(controller: Controller) -> list[Card]:
    """Return the headline numbers."""
    status, given, best = controller.status(), controller.definition, controller.best
    goal = "highest" if given.sign > 0 else "lowest"
    spent = sum(row.seconds for row in controller.rows())
    seeds = count_of(len(given.seeds), "seed")
    score, note = "-", "no row is done"
    if best is not None:
        score, note = format_score(best.mean, controller.metric, best.sd), format_settings(best.settings)
    if ties := sum(row.rank == 1 for row in controller.rows()) - 1:
        note += f"; {count_of(ties, 'other row')} with the same score"
    return [
        Card(f"{goal} {controller.metric}", score, note),
        Card("trials", f"{status.ended} of {status.total}", f"{given.search}, {seeds} a row"),
        Card("failed", str(status.failed), f"{status.stopped} stopped early"),
        Card("training time", format_duration(spent), "of all finished trials together"),
    ]
