"""The files a sweep leaves beside its trials: leaderboard.csv, .md, .html, and the best config."""

from ..runs.config_io import to_yaml
from ..runs.files import write_text
from .configs import trial_config
from .controller import Controller
from .leaderboard import as_csv, as_markdown, table
from .page import render


def write_tables(controller: Controller) -> None:
    """The tables and the best config, anew from what the controller knows; after every trial."""
    folder, given, rows = controller.folder.path, controller.definition, controller.rows()
    heads, cells = table(rows, given.keys, given.seeds, controller.metric)
    write_text(folder / "leaderboard.csv", as_csv(heads, cells))
    write_text(folder / "leaderboard.md", as_markdown(heads, cells))
    if rows and rows[0].state == "done":
        best = trial_config(given.base, rows[0].settings, given.seeds)
        write_text(folder / "best.yaml", to_yaml(best).replace("config.yaml", "best.yaml", 1))


def write_page(controller: Controller) -> None:
    """The page with the drawings, at the end."""
    write_text(controller.folder.path / "leaderboard.html", render(controller))
