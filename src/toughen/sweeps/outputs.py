"""The files a sweep leaves beside its trials: leaderboard.csv, .md, .html, and the best config."""

from ..internal.atomic import write_text
from ..runs.config_io import to_yaml
from .configs import trial_config
from .director import Director
from .leaderboard import as_csv, as_markdown, table
from .page import render


def write_tables(director: Director) -> None:
    """The tables and the best config, anew from what the director knows; after every trial."""
    folder, given, rows = director.folder.path, director.definition, director.rows()
    heads, cells = table(rows, given.keys, given.seeds, director.metric)
    write_text(folder / "leaderboard.csv", as_csv(heads, cells))
    write_text(folder / "leaderboard.md", as_markdown(heads, cells))
    if rows and rows[0].state == "done":
        best = trial_config(given.base, rows[0].settings, given.seeds)
        write_text(folder / "best.yaml", to_yaml(best).replace("config.yaml", "best.yaml", 1))


def write_page(director: Director) -> None:
    """The page with the drawings, at the end."""
    write_text(director.folder.path / "leaderboard.html", render(director))
