"""`report`: one or several runs as one HTML page that needs no other file."""

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import require
from ..internal.atomic import write_text
from .attack_examples import attack_examples
from .attacks import Attack, attacks_of, robustness
from .comparison import By, Comparison, compare_runs
from .comparison_section import comparison_section
from .drawing import Drawing
from .evaluations import error_summary, evaluation_table
from .folder import ReportError, Run, find_runs
from .formatting import format_p
from .run_section import Section, run_section

MOST = 8


def headline_cards(
    tables: Sequence[Comparison], runs: Sequence[Run], robustness: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    """The score, the gain and the cost of the best; for a single run what attacks and calibration say."""
    found = [card for table in tables for card in _scores(table)]
    if len(runs) == 1:
        found += [*_attacked(robustness), *_calibrated(runs[0])]
    return found[:MOST]


def _scores(table: Comparison) -> list[dict[str, str]]:
    best = table.best
    spread = "one seed" if best.summary.sd is None else f"± {best.summary.sd:.4f} sd, {best.summary.count} seeds"
    made = [
        {"name": f"{best.task}: {table.metric}", "value": f"{best.summary.mean:.4f}", "note": f"{best.name}, {spread}"}
    ]
    others = [row for row in table.rows if row.over_seeds is not None]
    if others:
        top, reference = table.best_of(others), table.rows[0].name
        test = top.over_seeds
        if test is not None:
            value = f"{test.difference:+.4f}" if test.count else "-"
            made.append({"name": f"{top.name} against {reference}", "value": value, "note": format_p(test.p, test.why)})
        if seconds := top.ratio.get("seconds_per_step"):
            made.append({"name": "cost of a step", "value": f"{seconds:.2f}x", "note": f"{top.name} to {reference}"})
    return made


def _attacked(robustness: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Each attack: what is left of the score, beside plain fine-tuning where that was attacked too."""
    made: dict[str, dict[str, str]] = {}
    for row in robustness["rows"] if robustness else ():
        where = f" {row['where']}" if row["where"] else ""
        if row["model"] != "plain":
            made[row["attack"]] = {
                "name": f"under {row['attack']}{where}",
                "value": row["end"]["text"],
                "note": f"{row['metric']}, clean {row['clean']['text']}",
            }
    for row in robustness["rows"] if robustness else ():
        if row["model"] == "plain" and row["attack"] in made:
            made[row["attack"]]["note"] += f", plain {row['end']['text']}"
    return list(made.values())[:3]


def _calibrated(run: Run) -> list[dict[str, str]]:
    errors, plain = error_summary(run, "method"), error_summary(run, "baseline")
    if not errors or not errors.get("calibration"):
        return []
    plain_note = f"plain {plain['calibration']['ece']:.3f}; " if plain and plain.get("calibration") else ""
    return [
        {"name": "calibration error", "value": f"{errors['calibration']['ece']:.3f}", "note": f"{plain_note}0 is best"}
    ]


PathLike = str | os.PathLike[str]
LIMIT = 990_000  # bytes of a page: it must travel by mail and open on a telephone
IN_FULL, COMPARED = 8, 6  # runs shown with their own drawings, and tasks compared with drawings


def report(
    runs: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    by: By = "run",
    title: str | None = None,
    intro: Sequence[str] = (),
) -> Path:
    """Write the page of these run folders (or folders of runs) and say where it is.

    Without `out` it goes into the run's own folder, with the drawings beside it in plots/, or for several runs into the
    working directory.
    """
    found = find_runs([runs] if isinstance(runs, (str, os.PathLike)) else list(runs))
    path = Path(out) if out is not None else (found[0].path if len(found) == 1 else Path()) / "report.html"
    if path.is_dir():
        path = path / "report.html"
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{path} is no name of a page, and a page goes over what is there; end it with .html.")
    page = Page(found, by)
    write_text(path, page.render(title, intro))
    if out is None and len(found) == 1:
        for drawing in page.drawings:
            name = re.sub(r"[^a-z0-9]+", "-", drawing.title.lower()).strip("-") or "plot"
            write_text(found[0].path / "plots" / f"{name}.svg", drawing.file())
    return path


class Page:
    """The parts of a page, made once; the text is made again with less in it while it is too long."""

    def __init__(self, runs: Sequence[Run], by: By = "run") -> None:
        self.runs, self.by = runs, by
        self.attacks = {id(run): attacks_of(run) for run in runs}
        self.tables = compare_runs(runs, by=by)
        self.comparisons = [
            comparison_section(table, by, draw=index < COMPARED) for index, table in enumerate(self.tables)
        ]
        named = [each for table in self.tables for each in self._named(table)]
        self.robustness = robustness([(name, attack) for name, _, attack in named])
        self.attack_examples = attack_examples(named)
        self.evaluations = evaluation_table(runs)
        self.sections: dict[int, Section] = {}

    def _named(self, table: Comparison) -> list[tuple[str, Run, Attack]]:
        """Every attack under the name its model has in the comparison, and its task where there are several."""
        found: list[tuple[str, Run, Attack]] = []
        task = f"{table.rows[0].task}: " if len(self.tables) > 1 else ""
        for row in (*table.rows[1:], table.rows[0]):  # the reference last: what it is held against
            for member in row.members:
                name = task + (row.name if len(row.members) == 1 else f"{row.name} ({member.run.name})")
                found += [(name, member.run, a) for a in self.attacks[id(member.run)] if a.arm == member.arm]
        return found

    def section(self, index: int) -> Section:
        if index not in self.sections:
            run = self.runs[index]
            self.sections[index] = run_section(run, self.attacks[id(run)])
        return self.sections[index]

    @property
    def drawings(self) -> list[Drawing]:
        """All drawings of the page, in order."""
        found = [*(drawn for section in self.sections.values() for each in section.drawings.values() for drawn in each)]
        for part in (*self.comparisons, self.robustness, self.evaluations):
            found += part["drawings"] if part else []
        return found

    def render(self, title: str | None = None, intro: Sequence[str] = ()) -> str:
        """The page as text, under `LIMIT` bytes whatever the runs hold: fewer runs are shown in full if need be."""
        full = min(len(self.runs), IN_FULL)
        while True:
            text = self._text(full, title, intro)
            if len(text.encode()) <= LIMIT or not full:
                return text
            full //= 2

    def _text(self, full: int, title: str | None, intro: Sequence[str]) -> str:
        environment, count = _environment(), iter(range(10_000))

        def inline(drawing: Drawing) -> Any:
            from markupsafe import Markup

            # The one thing that is put in as it is: matplotlib escaped what it wrote.
            return Markup(drawing.inline(next(count)))

        script = environment.get_template("page.js").render()
        shown = [self.section(index) for index in range(full)]
        return str(
            environment.get_template("page.html").render(
                title=title or _title(self.runs),
                intro=intro,
                version=__version__,
                inline=inline,
                script=script,
                script_hash=_hash(script),
                cards=headline_cards(self.tables, self.runs, self.robustness),
                one=len(self.runs) == 1,
                comparisons=[each for each in self.comparisons if each["several"] or len(self.runs) > 1],
                robustness=self.robustness,
                attack_examples=self.attack_examples,
                evaluations=self.evaluations,
                runs=[{**section.values, "drawings": section.drawings} for section in shown],
                left=[(run.name, str(run.results["task"]), run.method) for run in self.runs[full:]],
            )
        )


@cache  # it keeps compiled templates: they are a good part of a page's time
def _environment() -> Any:
    jinja = require("jinja2", "cli")
    # Text from data, file names and configs is escaped in every template.
    return jinja.Environment(
        loader=jinja.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hash(script: str) -> str:
    """What the page's policy names the one script by that may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _title(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return f"{runs[0].results['task']} with {runs[0].method}"
    return f"{len(runs)} runs: " + ", ".join(list(dict.fromkeys(run.method for run in runs))[:12])
