"""`report`: one or several runs as one HTML page that needs no other file."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..internal.atomic import write_text
from .attack_examples import attack_examples
from .attack_means import Attack
from .attacks import robustness
from .comparison import By, Comparison, compare_runs
from .comparison_section import comparison_section
from .drawing import Drawing
from .evaluations import evaluation_table
from .folder import ARMS, PathLike, ReportError, Run, find_runs
from .formatting import format_p, format_score, hide_folders
from .render import Card, Table, render
from .run_section import Section, run_section
from .verdict import sentence

CARDS, VERDICTS = 8, 3
LIMIT = 990_000  # bytes of a page: it must travel by mail and open on a telephone
IN_FULL, COMPARED = 8, 6  # runs shown with their own drawings, and tasks compared with drawings


def report(
    runs: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    by: By = "run",
    title: str | None = None,
    intro: Sequence[str] = (),
    tables: Sequence[Table] = (),
) -> Path:
    """Write one HTML page of a run, or of several side by side.

    Args:
        runs: A run folder, a folder of runs, or several.
        out: Where the page goes; by default report.html in the run's folder with the drawings in plots/, or for several
            runs in the working directory.
        by: One line for each run, or for each method.
        title: The page's title.
        intro: Sentences under the title.
        tables: Tables of text that come first.

    Returns:
        The path of the page.

    Raises:
        ReportError: A folder without a run, or a name that is not a page's.

    Examples:
        >>> toughen.report(run).name
        'report.html'
    """
    all_runs = find_runs([runs] if isinstance(runs, (str, os.PathLike)) else list(runs))
    path = Path(out) if out is not None else (all_runs[0].path if len(all_runs) == 1 else Path()) / "report.html"
    if path.is_dir():
        path = path / "report.html"
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{path}: the name of a page must end with .html.")
    page = Page(all_runs, by)
    write_text(path, page.render(title, intro, tables))
    if out is None and len(all_runs) == 1:
        for drawing in page.drawings:
            name = re.sub(r"[^a-z0-9]+", "-", drawing.title.lower()).strip("-") or "plot"
            write_text(all_runs[0].path / "plots" / f"{name}.svg", drawing.file())
    return path


class Page:
    """The parts of a page, computed once; the text is rendered again with less in it while it is too long."""

    def __init__(self, runs: Sequence[Run], by: By = "run") -> None:
        self.runs = runs
        self.tables = compare_runs(runs, by=by)
        self.comparisons = [
            comparison_section(table, by, draw=index < COMPARED) for index, table in enumerate(self.tables)
        ]
        named = [each for table in self.tables for each in self._named(table)]
        self.robustness = robustness([(name, attack) for name, _, attack in named])
        self.examples, self.attacked_rows = attack_examples(named)
        self.evaluations = evaluation_table(runs)
        self.sections = list[Section]()

    def _named(self, table: Comparison) -> list[tuple[str, Run, Attack]]:
        """Return every attack under the name its model has in the comparison, and its task if there are several."""
        named: list[tuple[str, Run, Attack]] = []
        task = f"{table.rows[0].task}: " if len(self.tables) > 1 else ""
        for row in (*table.rows[1:], table.rows[0]):  # the reference last: what it is held against
            for member in row.members:
                name = task + (row.name if len(row.members) == 1 else f"{row.name} ({member.run.name})")
                named += [(name, member.run, attack) for attack in member.attacks]
        return named

    @property
    def drawings(self) -> list[Drawing]:
        """All drawings of the page, in order."""
        drawings = [drawing for each in self.sections for part in each.drawings.values() for drawing in part]
        for part in (*self.comparisons, self.robustness, self.evaluations):
            drawings += part.drawings if part else []
        return drawings

    @property
    def cards(self) -> list[Card]:
        """The score, the gain and the cost of the best; for a single run what attacks and calibration say."""
        single = len(self.runs) == 1
        cards = [card for table in self.tables for card in _scores(table, single)]
        if single:
            cards += [*self._attacked(), *self._calibrated()]
        return cards[:CARDS]

    def _attacked(self) -> list[Card]:
        """What each attack leaves of the score, beside plain fine-tuning where that was attacked too."""
        rows = self.robustness.rows if self.robustness else ()
        ends = [(title, model, attack, *attack.end) for title, model, attack in rows if attack.end]
        plain = {
            title: f", plain {format_score(score.value, attack.metric)}"
            for title, model, attack, score, _ in ends
            if model == "plain"
        }
        cards: list[Card] = []
        for title, model, attack, score, at in ends:
            if model != "plain":
                note = f"{attack.metric}, clean {format_score(attack.clean.value, attack.metric)}{plain.get(title, '')}"
                cards.append(Card(f"under {title} {at}".rstrip(), format_score(score.value, attack.metric), note))
        return cards[:3]

    def _calibrated(self) -> list[Card]:
        errors = self.sections[0].errors
        ours, plain = (errors[arm].ece if arm in errors else None for arm in ARMS)
        plain_note = "" if plain is None else f"plain {plain:.3f}; "
        return [] if ours is None else [Card("calibration error", f"{ours:.3f}", f"{plain_note}0 is best")]

    def render(self, title: str | None = None, intro: Sequence[str] = (), tables: Sequence[Table] = ()) -> str:
        """Return the page, under `LIMIT` bytes whatever the runs hold: fewer runs are shown in full if need be."""
        full = min(len(self.runs), IN_FULL)
        self.sections = [run_section(run) for run in self.runs[:full]]
        while True:
            text = self._text(full, title or _title(self.runs), intro, tables)
            if len(text.encode()) <= LIMIT or not full:
                return text
            full //= 2

    def _text(self, full: int, title: str, intro: Sequence[str], tables: Sequence[Table]) -> str:
        several = len(self.runs) > 1
        return render(
            "page.html",
            kind="comparison" if several else "report",
            title=title,
            verdicts=self.verdicts,
            intro=intro,
            tables=tables,
            cards=self.cards,
            section=None if several else self.sections[0] if full else None,
            comparisons=[each for each in self.comparisons if len(each.table.rows) > 1 or several],
            robustness=self.robustness,
            examples=self.examples,
            examples_chosen="taken at even distances",
            attacked_rows=self.attacked_rows,
            evaluations=self.evaluations,
            sections=self.sections[:full],
            left=self.runs[full:],
        )

    @property
    def verdicts(self) -> list[str]:
        """What to take, in a sentence for each task."""
        several = len(self.tables) > 1
        tables = self.tables[:VERDICTS]
        return [hide_folders(f"{f'{each.rows[0].task}: ' if several else ''}{sentence(each)}") for each in tables]


def _scores(table: Comparison, single: bool) -> list[Card]:
    """The best score, or that of the one run, whatever its plain baseline has."""
    best = next(row for row in table.rows if row.members[0].arm == "method") if single else table.best
    seeds = "one seed" if best.summary.sd is None else f"sd of {best.summary.count} seeds"
    score = format_score(best.summary.mean, table.metric, best.summary.sd)
    cards = [Card(f"{hide_folders(best.task)}: {table.metric}", score, f"{best.name}, {seeds}")]
    others = table.ranked([row for row in table.rows if row.over_seeds is not None])
    if others and (test := others[0].over_seeds):
        top, reference = others[0], others[0].reference
        error = None if test.low is None or test.high is None else (test.high - test.low) / 2
        value = format_score(test.difference, table.metric, error, "+") if test.count else "-"
        cards.append(Card(f"{top.name} against {reference}", value, format_p(test.p, test.why)))
        if seconds := top.ratio.get("seconds_per_step"):
            cards.append(Card("cost of a step", f"{seconds:.2f}x", f"{top.name} to {reference}"))
    return cards


def _title(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return f"{hide_folders(runs[0].results.task)} with {runs[0].method}"
    return f"{len(runs)} runs: " + ", ".join(list(dict.fromkeys(run.method for run in runs))[:12])
