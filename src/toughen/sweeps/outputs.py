"""The files of a sweep beside its trials: leaderboard.csv, .md, .html, and best.yaml."""

from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import require
from ..internal.atomic import write_text
from ..runs.config_io import to_yaml
from ..runs.progress import format_duration
from .controller import Controller
from .definition import format_settings
from .figures import heat_maps, parallel
from .leaderboard import Row, as_csv, as_markdown, shown, table
from .trials import trial_config


def write_tables(controller: Controller) -> None:
    """Write the tables and the best config; called after every trial."""
    folder, given, rows = controller.folder.path, controller.definition, controller.rows()
    heads, cells = table(rows, given.keys, given.seeds, controller.metric)
    write_text(folder / "leaderboard.csv", as_csv(heads, cells))
    write_text(folder / "leaderboard.md", as_markdown(heads, cells))
    if rows and rows[0].state == "done":
        best = trial_config(given.base, rows[0].settings, given.seeds)
        write_text(folder / "best.yaml", to_yaml(best).replace("config.yaml", "best.yaml", 1))


def write_page(controller: Controller) -> None:
    """Write the page with the figures; called at the end."""
    write_text(controller.folder.path / "leaderboard.html", render_page(controller))


def render_page(controller: Controller) -> str:
    """Render the page; everything but the figures is escaped."""
    from markupsafe import Markup

    jinja: Any = require("jinja2", "cli")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    given, rows, metric = controller.definition, controller.rows(), controller.metric
    heads, cells = table(rows, given.keys, given.seeds, metric)
    figures: list[str] = []
    if any(row.mean is not None for row in rows):
        varied = [key for key in given.keys if len({repr(row.settings[key]) for row in rows}) > 1]
        figures = [parallel(rows, varied, metric, given.sign), *heat_maps(rows, varied, metric)]
    best = rows[0] if rows and rows[0].state == "done" else None
    text = to_yaml(trial_config(given.base, best.settings, given.seeds)) if best else ""
    return str(
        template.render(
            title=f"Sweep {controller.folder.path.resolve().name}",
            version=__version__,
            cards=_cards(controller, best),
            heads=heads,
            rows=[[shown(cell) for cell in row] for row in cells],
            figures=[Markup(svg) for svg in figures],
            failures=[(row.number, format_settings(row.settings), row.errors) for row in rows if row.errors],
            best=text.partition("\n")[2],
        )
    )


def _cards(controller: Controller, best: Row | None) -> list[dict[str, str]]:
    status, given = controller.status(), controller.definition
    goal = "highest" if given.sign > 0 else "lowest"
    score = "-" if best is None else str(best).partition(" (")[0]
    note = "no row is done" if best is None else format_settings(best.settings)
    over = status.done + status.stopped + status.failed
    spent = sum(row.seconds for row in controller.rows())
    seeds = f"{len(given.seeds)} seed{'s' * (len(given.seeds) > 1)}"
    return [
        {"name": f"{goal} {controller.metric}", "value": score, "note": note},
        {"name": "trials", "value": f"{over} of {status.total}", "note": f"{given.search}, {seeds} a row"},
        {"name": "failed", "value": str(status.failed), "note": f"{status.stopped} stopped early"},
        {"name": "training time", "value": format_duration(spent), "note": "of all finished trials together"},
    ]
