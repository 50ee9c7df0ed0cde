"""`report`: one or several runs as one HTML page that needs no other file."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..internal.atomic import write_text
from ..statistics import PairedTestResult
from .attack_examples import attack_examples
from .attacks import Attack, robustness
from .charts import Difference, forest, scatter
from .comparison import By, Comparison, Row, compare_runs, difference_of, under_attack
from .drawing import Drawing
from .evaluations import evaluation_table
from .folder import ARMS, PathLike, ReportError, Run, find_runs
from .formatting import format_p, format_score, hide_folders, lower_is_better
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


Attacked = Mapping[str, Mapping[str, PairedTestResult]]
"""Attack -> row -> difference from the reference, on the examples that both kept."""
ROWS, LINES, ATTACKS = 300, 40, 6  # of a table, of a forest plot, and columns of attacks


@dataclass(frozen=True)
class Line:
    """A row of the table with what the page adds to it."""

    row: Row
    best: bool
    direction: str
    """How its difference from the reference is marked if it is more than chance: up is better."""
    attacks: Sequence[float | None]
    """Its score under each attack of the section, at the full budget."""


@dataclass(frozen=True)
class ComparisonSection:
    """A comparison as `compare.html` shows it; the reference is the first line."""

    table: Comparison
    by: By
    lines: Sequence[Line]
    attacks: Sequence[str]
    notes: Sequence[str]
    drawings: Sequence[Drawing]


def comparison_section(table: Comparison, by: By, *, draw: bool = True) -> ComparisonSection:
    """Choose what a page shows of a comparison."""
    several = len(table.rows) > 1
    best = table.best.summary.mean
    rows, notes = table.rows, [*table.notes]
    if len(rows) > ROWS:
        notes.append(f"The best {ROWS} of {len(rows)} lines are shown.")
        rows = [rows[0], *table.ranked(rows[1:])[: ROWS - 1]]
    kinds, attacks = _attacks(rows)
    titles = list(kinds)[:ATTACKS]
    lines: list[Line] = []
    for row, scores in zip(rows, attacks, strict=True):
        test = row.over_seeds
        clear = test is not None and test.low is not None and test.high is not None and not test.low <= 0 <= test.high
        direction = "" if test is None or not clear else "up" if table.sign * test.difference > 0 else "down"
        lines.append(Line(row, several and row.summary.mean == best, direction, [scores.get(each) for each in titles]))
    tests = under_attack(table) if draw and several else {}
    attacked = {title: tests[kind] for title, kind in kinds.items() if kind in tests}
    drawings = _drawings(table, attacked) if draw and several else []
    return ComparisonSection(table, by, lines, titles, notes, drawings)


def _attacks(rows: Sequence[Row]) -> tuple[dict[str, tuple[str, str]], list[dict[str, float]]]:
    """Return attack -> it and its terms, and attack -> score for every row that was attacked as most were.

    On those examples, with that budget.
    """
    ends = [
        {
            (attack.title, attack.key, attack.terms): attack.end[0].value
            for member in reversed(row.members)
            for attack in member.attacks
            if attack.end
        }
        for row in rows
    ]
    often = Counter(kind for each in ends for kind in each)  # of as many, the first: the run's own rows
    chosen = {kind[0]: kind for kind, _ in reversed(often.most_common())}
    scores = [{title: each[kind] for title, kind in chosen.items() if kind in each} for each in ends]
    return {title: (title, terms) for title, _, terms in chosen.values()}, scores


def _difference(row: Row, sign: int) -> Difference | None:
    chosen = difference_of(row)
    return chosen and Difference(row.name, chosen.difference, chosen.low, chosen.high, sign * chosen.difference)


def _ranked(differences: Iterable[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda each: -each.gain)


def _drawings(table: Comparison, attacked: Attacked) -> list[Drawing]:
    reference, drawings = table.reference, list[Drawing]()

    def add_forest(title: str, ranked: Sequence[Difference], of: str, note: str) -> None:
        title, x = f"{title}: difference from {reference}", f"difference in {of}"
        drawings.append(forest(title, ranked[:LINES], x=x, note=note, points=not lower_is_better(of)))

    known = _ranked(each for row in table.rows if (each := _difference(row, table.sign)) is not None)
    if known:
        note = "95 %: over seeds, or on the rows of one seed where there is one. Coloured: more than chance."
        add_forest(table.metric, known, table.metric, note)
    ratios = {row.name: row.ratio.get("seconds_per_step") for row in table.rows}
    costs = {each.name: (ratio, each) for each in known if (ratio := ratios[each.name])}
    if costs:
        x, y = f"time of a step, times {reference}", f"difference in {table.metric}"
        note = f"The star is {reference}."
        drawings.append(
            scatter(
                "what is gained, and what it costs",
                costs,
                x=x,
                y=y,
                note=note,
                names=len(costs) <= 12,
                points=table.sign > 0,
            )
        )
    for title, rows in list(attacked.items())[:ATTACKS]:
        each = (Difference(name, test.difference, test.low, test.high, test.difference) for name, test in rows.items())
        add_forest(title, _ranked(each), "after-attack accuracy", "95 %: paired bootstrap over the attacked examples.")
    return drawings
