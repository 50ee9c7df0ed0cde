"""`report`: one or several runs as one HTML page that needs nothing beside it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from ..atomic import write_text
from ..errors import require
from .comparison import LOWER, By, Comparison, Row, compare_runs
from .folder import Run, find_runs
from .sections import Section, evaluation_table, run_section

PathLike = str | os.PathLike[str]


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
    place = Path(out) if out is not None else (found[0].path if len(found) == 1 else Path()) / "report.html"
    if place.is_dir():
        place = place / "report.html"
    sections = [run_section(run) for run in found]
    write_text(place, render(found, by=by, title=title, intro=intro, sections=sections))
    if out is None and len(found) == 1:
        _write_plots(found[0].path / "plots", sections[0].figures)
    return place


def _write_plots(folder: Path, figures: Sequence[str]) -> None:
    """Each drawing as a file under the name it is read out by."""
    for svg in figures:
        label = re.search(r'aria-label="([^"]*)"', svg)
        name = re.sub(r"[^a-z0-9]+", "-", label.group(1).lower()).strip("-") if label else "plot"
        write_text(folder / f"{name}.svg", svg)


def render(
    runs: Sequence[Run],
    *,
    by: By = "run",
    title: str | None = None,
    intro: Sequence[str] = (),
    sections: Sequence[Section] | None = None,
) -> str:
    """The page as text."""
    jinja = require("jinja2", "cli")
    # Text from data, file names and configs is escaped; drawings alone are put in as they are.
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    comparisons = compare_runs(runs, by=by)
    return str(
        template.render(
            title=title or _title(runs),
            intro=intro,
            version=__version__,
            cards=[card for table in comparisons for card in _cards(table)],
            comparisons=[_table(table, by) for table in comparisons],
            evaluations=evaluation_table(runs),
            runs=[_drawn(section) for section in sections or [run_section(run) for run in runs]],
        )
    )


def _title(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return f"{runs[0].results['task']} with {runs[0].method}"
    return f"{len(runs)} runs: " + ", ".join(dict.fromkeys(run.method for run in runs))


def _drawn(section: Section) -> dict[str, Any]:
    from markupsafe import Markup

    return {**section.values, "figures": [Markup(svg) for svg in section.figures]}


def _cards(table: Comparison) -> list[dict[str, str]]:
    """The score, and what the best method gains over the reference and costs."""
    best = table.best
    spread = "one seed" if best.summary.sd is None else f"mean ± sd of {best.summary.count} seeds"
    cards = [{"name": f"{best.task}: {table.metric}", "value": str(best.summary), "note": f"{best.name}, {spread}"}]
    others = [row for row in table.rows if row.over_seeds is not None]
    if others:
        top, reference = table.best_of(others), table.rows[0].name
        test = top.over_seeds
        if test is not None:
            value = f"{test.difference:+.4f}" if test.count else "-"
            cards.append({"name": f"{top.name} against {reference}", "value": value, "note": p_words(test.p, test.why)})
        if seconds := top.ratio.get("seconds_per_step"):
            cards.append({"name": "cost of a step", "value": f"{seconds:.2f}x", "note": f"{top.name} to {reference}"})
    return cards


def _table(table: Comparison, by: By) -> dict[str, Any]:
    best = table.best.summary.mean
    several = len(table.rows) > 1
    legend = (
        f"Difference from {table.rows[0].name}. Over seeds: paired t test on the seeds both have. On rows: McNemar's "
        "exact test on the predictions of one seed. Cost: seconds of a step as a multiple of the reference's."
    )
    return {
        "title": f"{table.rows[0].task}: {table.metric}",
        "by": by,
        "rows": [
            _cells(row, several and row.summary.mean == best, -1 if table.metric in LOWER else 1) for row in table.rows
        ],
        "legend": legend if several else "",
        "notes": table.notes,
    }


def _cells(row: Row, best: bool, sign: int) -> dict[str, Any]:
    test = row.over_seeds
    rows = next((each for each in row.over_rows if each.test.startswith("McNemar")), None)
    known = test is not None and test.count > 0
    turn = ("up" if sign * test.difference > 0 else "down") if test is not None and known and test.difference else ""
    return {
        "name": row.name,
        "seeds": row.summary.count,
        "mean": str(row.summary),
        "median": f"{row.summary.median:.4f}",
        "difference": f"{test.difference:+.4f}" if test is not None and known else "",
        "turn": turn,
        "p_seeds": "" if test is None else p_words(test.p, "-"),
        "p_rows": "" if test is None else (p_words(rows.p, "-") if rows else "-"),
        "passes": passes(row.cost),
        "step": f"{row.cost['seconds_per_step']:.3g}" if "seconds_per_step" in row.cost else "-",
        "ratio": f"{row.ratio['seconds_per_step']:.2f}x" if "seconds_per_step" in row.ratio else "",
        "best": best,
    }


def passes(cost: Mapping[str, float]) -> str:
    """Forward and backward passes of a step."""
    return f"{cost['forward']:g} + {cost['backward']:g}" if {"forward", "backward"} <= cost.keys() else "-"


def p_words(p: float | None, otherwise: str) -> str:
    """A p value, or what is said in its place."""
    return otherwise if p is None else ("p < 0.001" if p < 0.001 else f"p = {p:.3f}")
