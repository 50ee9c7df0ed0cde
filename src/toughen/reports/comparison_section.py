"""One comparison as a section of a page: a table to sort and filter, differences with intervals, cost against gain."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .attacks import attacks_of
from .charts import Difference, forest, scatter
from .comparison import LOWER, By, Comparison, Row, under_attack
from .drawing import Drawing
from .formatting import format_p, format_passes, number

ROWS, LINES, ATTACKS = 300, 40, 6  # of a table, of a forest plot, and columns of attacks


def comparison_section(table: Comparison, by: By, *, draw: bool = True) -> dict[str, Any]:
    """Values for the template; the reference is the first row."""
    several = len(table.rows) > 1
    best = table.best.summary.mean
    rows = _kept(table)
    attacks = _attacks(rows)
    titles = list(dict.fromkeys(title for found in attacks for title in found))[:ATTACKS]
    notes = [*table.notes]
    if len(rows) < len(table.rows):
        notes.append(f"The best {len(rows)} of {len(table.rows)} lines are shown.")
    legend = (
        f"Difference from {table.rows[0].name}; p: paired t test over the seeds both have, and McNemar's exact test on "
        "the validation rows of one seed. Cost: time of a step as a multiple."
    )
    sign = -1 if table.metric in LOWER else 1
    return {
        "title": f"{table.rows[0].task}: {table.metric}",
        "by": by,
        "several": several,
        "rows": [
            _cells(row, several and row.summary.mean == best, sign, [found.get(title) for title in titles])
            for row, found in zip(rows, attacks, strict=True)
        ],
        "attacks": titles,
        "methods": sorted({member.method for row in rows for member in row.members}),
        "models": sorted({str(member.run.results.get("model")) for row in rows for member in row.members}),
        "legend": legend if several else "",
        "notes": notes,
        "drawings": _drawings(table, sign) if draw and several else [],
    }


def _kept(table: Comparison) -> list[Row]:
    if len(table.rows) <= ROWS:
        return list(table.rows)
    first, *others = table.rows
    ranked = sorted(others, key=lambda row: row.summary.mean, reverse=table.metric not in LOWER)
    return [first, *ranked[: ROWS - 1]]


def _attacks(rows: Sequence[Row]) -> list[dict[str, float]]:
    """Attack -> the score at its full budget, for every row that was attacked as most were: on those rows, so hard."""
    found: list[dict[tuple[str, str, str], float]] = []
    for row in rows:
        ends = {
            (attack.title, attack.key, attack.terms): attack.end[0].value
            for member in reversed(row.members)
            for attack in attacks_of(member.run)
            if attack.arm == member.arm and attack.end
        }
        found.append(ends)
    often = Counter(kind for ends in found for kind in ends)  # of as many, the first: the run's own rows
    chosen = {title: (title, key, terms) for (title, key, terms), _ in reversed(often.most_common())}
    return [{title: ends[kind] for title, kind in chosen.items() if kind in ends} for ends in found]


def _cells(row: Row, best: bool, sign: int, attacks: Sequence[float | None]) -> dict[str, Any]:
    test = row.over_seeds
    rows = next((each for each in row.over_rows if each.test.startswith("McNemar")), None)
    known = test is not None and test.count > 0
    turn = ("up" if sign * test.difference > 0 else "down") if test is not None and known and test.difference else ""
    mean = number(row.summary.mean) | {"text": str(row.summary)}
    return {
        "name": row.name,
        "method": row.members[0].method,
        "model": str(row.members[0].run.results.get("model")),
        "seeds": row.summary.count,
        "mean": mean,
        "median": number(row.summary.median),
        "difference": number(test.difference, "{:+.4f}") if test is not None and known else {"text": "", "sort": "0"},
        "turn": turn,
        "p_seeds": number(test.p if test else None) | {"text": "" if test is None else format_p(test.p, "-")},
        "p_rows": number(rows.p if rows else None)
        | {"text": "" if test is None else (format_p(rows.p, "-") if rows else "-")},
        "passes": {"text": format_passes(row.cost), "sort": row.cost.get("forward", 0) + row.cost.get("backward", 0)},
        "step": number(row.cost.get("seconds_per_step"), "{:.3g}"),
        "ratio": number(row.ratio.get("seconds_per_step"), "{:.2f}x") if test else {"text": "", "sort": "1"},
        "attacks": [number(value) for value in attacks],
        "best": best,
    }


def difference_of(row: Row, sign: int) -> Difference | None:
    """Over seeds where they give an interval, else on the rows of one seed."""
    test = row.over_seeds
    if test is None or not test.count:
        return None
    over_rows = next((each for each in row.over_rows if each.low is not None), None)
    chosen = over_rows if test.low is None and over_rows is not None else test
    return Difference(row.name, chosen.difference, chosen.low, chosen.high, sign * chosen.difference)


def _drawings(table: Comparison, sign: int) -> list[Drawing]:
    reference, drawn = table.rows[0].name, list[Drawing]()
    known = [(row, found) for row in table.rows[1:] if (found := difference_of(row, sign)) is not None]
    known.sort(key=lambda pair: -pair[1].gain)
    shown = [found for _, found in known[:LINES]]
    if shown:
        note = "95 %: over seeds, or on the rows of one seed where there is one. Coloured: more than chance."
        drawn.append(
            forest(f"{table.metric}: difference from {reference}", shown, x=f"difference in {table.metric}", note=note)
        )
    costs = {
        found.name: (row.ratio["seconds_per_step"], found) for row, found in known if row.ratio.get("seconds_per_step")
    }
    if costs:
        drawn.append(
            scatter(
                "what is gained, and what it costs",
                costs,
                x=f"time of a step, times {reference}",
                y=f"difference in {table.metric}",
                note=f"The star is {reference}.",
                names=len(costs) <= 12,
            )
        )
    for title, rows in list(under_attack(table).items())[:ATTACKS]:
        each = [Difference(name, test.difference, test.low, test.high, test.difference) for name, test in rows.items()]
        each.sort(key=lambda row: -row.gain)
        drawn.append(
            forest(
                f"{title}: difference from {reference}",
                each[:LINES],
                x="difference in after-attack accuracy",
                note="95 %: paired bootstrap over the attacked examples.",
            )
        )
    return drawn
