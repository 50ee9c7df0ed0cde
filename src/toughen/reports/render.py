"""Pages from templates: one self-contained HTML file each, with the same head, script and style."""

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import require
from .drawing import Drawing
from .formatting import format_p, format_passes, shorten

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@dataclass(frozen=True)
class Card:
    """A headline number."""

    name: str
    value: str
    note: str


def render(template: str, **values: Any) -> str:
    """Return the page of a template that extends layout.html."""
    from markupsafe import Markup

    environment, numbers = _environment(), count()

    def inline(drawing: Drawing) -> "Markup":
        # The one thing that is put in as it is: matplotlib escaped what it wrote.
        return Markup(drawing.inline(next(numbers)))

    script = environment.get_template("page.js").render()
    return environment.get_template(template).render(
        version=__version__,
        inline=inline,
        script=script,
        # What the page's policy names the one script by that may run.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        format_p=format_p,
        format_passes=format_passes,
        shorten=shorten,
        to_json=partial(json.dumps, ensure_ascii=False),
        **values,
    )


@cache  # it keeps compiled templates: they are a good part of a page's time
def _environment() -> "Environment":
    jinja = require("jinja2", "cli")
    # Text from data, file names and configs is escaped in every template.
    return jinja.Environment(
        loader=jinja.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
