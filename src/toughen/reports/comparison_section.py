"""One comparison as a section of a page: a table to sort and filter, differences with intervals, cost against gain."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..statistics import PairedTestResult
from .charts import Difference, forest, scatter
from .comparison import By, Comparison, Row, under_attack
from .drawing import Drawing
from .formatting import LOWER, format_interval, format_score

Attacked = Mapping[str, Mapping[str, PairedTestResult]]
"""Attack -> row -> difference from the reference, on the examples that both kept."""
ROWS, LINES, ATTACKS = 300, 40, 6  # of a table, of a forest plot, and columns of attacks


@dataclass(frozen=True)
class Line:
    """A row of the table with what the page adds to it."""

    row: Row
    best: bool
    direction: str
    """How its difference from the reference is marked: up is better."""
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
    verdict: str
    """Whether the best method is worth its cost; empty if there is nothing to compare."""


def comparison_section(table: Comparison, by: By, *, draw: bool = True) -> ComparisonSection:
    """Choose what a page shows of a comparison."""
    several = len(table.rows) > 1
    best = table.best.summary.mean
    rows, notes = table.rows, [*table.notes]
    if len(rows) > ROWS:
        notes.append(f"The best {ROWS} of {len(rows)} lines are shown.")
        rows = [rows[0], *table.ranked(rows[1:])[: ROWS - 1]]
    attacks = _attacks(rows)
    titles = list(dict.fromkeys(title for scores in attacks for title in scores))[:ATTACKS]
    lines: list[Line] = []
    for row, scores in zip(rows, attacks, strict=True):
        gain = table.sign * row.over_seeds.difference if row.over_seeds and row.over_seeds.count else 0.0
        direction = "up" if gain > 0 else "down" if gain < 0 else ""
        lines.append(Line(row, several and row.summary.mean == best, direction, [scores.get(each) for each in titles]))
    attacked = under_attack(table) if draw and several else {}
    drawings = _drawings(table, attacked) if draw and several else []
    return ComparisonSection(table, by, lines, titles, notes, drawings, _verdict(table, attacked))


def _verdict(table: Comparison, attacked: Attacked) -> str:
    """Return in a few sentences whether a method is worth its cost, and how sure that is."""
    others = table.ranked([row for row in table.rows if row.over_seeds is not None])
    if not others:
        return ""
    better = [row for row in others if row.over_seeds and _sure(row.over_seeds, table.sign) > 0]
    row, reference = (better or others)[0], table.rows[0].name
    test = row.over_seeds
    if test is None or not test.count:
        return f"{row.name} and {reference} have no seed in common, so they cannot be compared."
    sentences = [_clean_verdict(table, row, test, reference)]
    for title, rows in list(attacked.items())[:2]:
        if (under := rows.get(row.name)) and under.low is not None and under.high is not None:
            ends = format_interval(under.low, under.high, sign="+")
            sentences.append(f"Under {title}: {format_score(under.difference, sign='+')} points ({ends}).")
    if seconds := row.ratio.get("seconds_per_step"):
        sentences.append(f"A step takes {seconds:.2g} times as long.")
    return " ".join(sentences)


def _clean_verdict(table: Comparison, row: Row, test: PairedTestResult, reference: str) -> str:
    half = None if test.low is None or test.high is None else (test.high - test.low) / 2
    size = format_score(abs(test.difference), table.metric, half).partition(" ")[0]
    verb = "gains" if table.sign * test.difference >= 0 else "loses"
    unit = table.metric if table.metric in LOWER else f"points of {table.metric}"
    change = f"{row.name} {verb} {size} {unit} against {reference}"
    if test.low is None or test.high is None:
        return f"Not known yet: {change} with one seed, which says nothing about chance. Train more seeds."
    ends = f"95 % interval {format_interval(test.low, test.high, table.metric, '+')}, {test.count} seeds"
    answers = {1: f"Better than {reference}", -1: f"Worse than {reference}", 0: "No difference shown"}
    sure = _sure(test, table.sign)
    return f"{answers[sure]}: {change} ({ends}){'' if sure else ', which may be chance'}."


def _sure(test: PairedTestResult, sign: int) -> int:
    """1 if the whole interval is better than the reference, -1 if it is worse, 0 if it holds both or there is none."""
    ends = [sign * end for end in (test.low, test.high) if end is not None]
    return 1 if ends and min(ends) > 0 else -1 if ends and max(ends) < 0 else 0


def _attacks(rows: Sequence[Row]) -> list[dict[str, float]]:
    """Return attack -> score, for every row that was attacked as most were: on those examples, with that budget."""
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
    return [{title: each[kind] for title, kind in chosen.items() if kind in each} for each in ends]


def _difference(row: Row, sign: int) -> Difference | None:
    """Return the difference over seeds if they give an interval, else the one on the rows of one seed."""
    test = row.over_seeds
    if test is None or not test.count:
        return None
    over_rows = next((each for each in row.over_rows if each.low is not None), None)
    chosen = over_rows if test.low is None and over_rows is not None else test
    return Difference(row.name, chosen.difference, chosen.low, chosen.high, sign * chosen.difference)


def _ranked(differences: Iterable[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda each: -each.gain)


def _drawings(table: Comparison, attacked: Attacked) -> list[Drawing]:
    reference, drawings = table.rows[0].name, list[Drawing]()

    def add_forest(title: str, ranked: Sequence[Difference], of: str, note: str) -> None:
        title, x = f"{title}: difference from {reference}", f"difference in {of}"
        drawings.append(forest(title, ranked[:LINES], x=x, note=note, points=of not in LOWER))

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
                points=table.metric not in LOWER,
            )
        )
    for title, rows in list(attacked.items())[:ATTACKS]:
        each = (Difference(name, test.difference, test.low, test.high, test.difference) for name, test in rows.items())
        add_forest(title, _ranked(each), "after-attack accuracy", "95 %: paired bootstrap over the attacked examples.")
    return drawings
