"""One comparison as a section of a page: a table to sort and filter, differences with intervals, cost against gain."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..statistics import PairedTestResult
from .charts import Difference, forest, scatter
from .comparison import By, Comparison, Row, difference_of, under_attack
from .drawing import Drawing
from .formatting import lower_is_better

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
