"""The files of a sweep beside its trials: leaderboard.csv, .md, .html, and best.yaml."""

import csv
import io
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from .. import reports
from .._version import __version__
from ..errors import require
from ..internal.atomic import write_text
from ..internal.markdown import line
from ..reports.drawing import Drawing
from ..runs.config_io import to_yaml
from ..runs.progress import format_duration
from .controller import Controller
from .definition import format_settings
from .figures import draw
from .leaderboard import Row, shown, table
from .trials import trial_config, trial_folder

# The page is one of the reports: their style and their macros.
TEMPLATES = [Path(__file__).parent, Path(reports.__file__).parent / "templates"]


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
    """Write the page with the figures, in the look of the reports; called at the end. Text is escaped."""
    from markupsafe import Markup

    jinja: Any = require("jinja2", "cli")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    given, rows, number = controller.definition, controller.rows(), count()

    def inline(drawing: Drawing) -> Any:
        return Markup(drawing.inline(next(number)))  # matplotlib escaped what it wrote

    heads, cells = table(rows, given.keys, given.seeds, controller.metric)
    page = environment.get_template("page.html").render(
        title=f"Sweep {controller.folder.path.resolve().name}",
        version=__version__,
        inline=inline,
        cards=_cards(controller),
        heads=heads,
        rows=[([shown(cell) for cell in each], _links(controller, row)) for row, each in zip(rows, cells, strict=True)],
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


def _cards(controller: Controller) -> list[tuple[str, str, str]]:
    """Return the name, value and note of each headline number."""
    status, given, best = controller.status(), controller.definition, controller.best
    goal = "highest" if given.sign > 0 else "lowest"
    spent = sum(row.seconds for row in controller.rows())
    seeds = f"{len(given.seeds)} seed{'s' * (len(given.seeds) > 1)}"
    score, note = ("-", "no row is done") if best is None else (best.score, format_settings(best.settings))
    if ties := sum(row.rank == 1 for row in controller.rows()) - 1:
        note += f"; {ties} other row{'s' * (ties > 1)} with the same score"
    return [
        (f"{goal} {controller.metric}", score, note),
        ("trials", f"{status.ended} of {status.total}", f"{given.search}, {seeds} a row"),
        ("failed", str(status.failed), f"{status.stopped} stopped early"),
        ("training time", format_duration(spent), "of all finished trials together"),
    ]
