"""The frame of every page: one style, one script, one policy; text from data is escaped in every template."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import require
from .drawing import Drawing
from .formatting import format_interval, format_p, format_passes, format_score, hide_folders, shorten

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Card:
    """A headline number."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Table:
    """A table of text; the first cell of a row is its name."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def wordy(self) -> list[bool]:
        """Whether each column has a long cell, and stands at the left."""
        return [max(map(len, column)) > 24 for column in zip(self.head, *self.rows, strict=True)]


def render(template: str, folder: Path = TEMPLATES, **values: Any) -> str:
    """Return a page that needs no other file; its template extends base.html.

    Args:
        template: The name of the template.
        folder: Where it is, if not among the reports' own.
        **values: What the template shows: `kind`, `title`, `verdicts`, `intro`, `cards` and its own.
    """
    from markupsafe import Markup

    environment, numbers = _environment(folder), count()

    def inline(drawing: Drawing) -> Any:
        # The one thing that is put in as it is: matplotlib escaped what it wrote.
        return Markup(drawing.inline(next(numbers)))

    script = environment.get_template("page.js").render()
    # What the page's policy names the one script by that may run.
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    frame = {"version": __version__, "inline": inline, "script": script, "script_hash": script_hash}
    return environment.get_template(template).render(**{"verdicts": (), "intro": (), **frame, **values})


@cache  # it keeps compiled templates: they are a good part of a page's time
def _environment(folder: Path) -> "Environment":
    jinja = require("jinja2", "cli")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["hide_folders"] = hide_folders
    environment.globals |= {
        "format_interval": format_interval,
        "format_p": format_p,
        "format_passes": format_passes,
        "format_score": format_score,
        "shorten": shorten,
    }
    return environment
