"""The page of a scan: the decision, scores with losses, slices, the worst examples, and what would help."""

from typing import TYPE_CHECKING

from ..errors import count_of
from ..internal.atomic import write_text
from . import charts
from .attack_examples import Example, TextPair
from .drawing import Drawing
from .formatting import LOWER, format_interval, format_score
from .letters import mark_letters
from .render import Card, render

if TYPE_CHECKING:
    from ..evaluation.scan_results import BrokenRow, CheckResult, Scan

SLICES = 60


def write_page(scan: "Scan") -> None:
    """Write scan.html of a scan."""
    write_text(
        scan.page,
        render(
            "scan.html",
            kind="scan",
            title=f"Scan of {scan.model}",
            verdicts=[scan.decision],
            cards=_cards(scan),
            scan=scan,
            drawings=_drawings(scan),
            slices=scan.slices[:SLICES],
            examples=[_example(each, row) for each in scan.checks for row in each.examples],
            examples_chosen="the worst of each check: those the model was surest of before",
            attacked_rows=sum(each.broken for each in scan.checks),
        ),
    )


def _cards(scan: "Scan") -> list[Card]:
    between = format_interval(scan.clean.low, scan.clean.high, scan.metric)
    cards = [
        Card(
            f"clean {scan.metric}",
            format_score(scan.clean.value, scan.metric),
            f"{between}, {count_of(scan.rows, 'row')}",
        )
    ]
    if scan.evaluation.calibration:
        cards.append(Card("calibration error", f"{scan.evaluation.calibration['ece']:.3f}", "0 is best"))
    return cards + [
        Card(each.check.name, format_score(each.score.value, scan.metric), f"lost {each.points} points")
        for each in scan.checks
    ]


def _drawings(scan: "Scan") -> list[Drawing]:
    scores = {"clean": scan.clean} | {each.check.name: each.score for each in scan.checks}
    groups = {name: {scan.metric: score} for name, score in scores.items()}
    note, points = "With 95 % intervals over rows.", scan.metric not in LOWER
    drawings = [charts.bars("score under each check", groups, y=scan.metric, note=note, points=points)]
    if calibration := scan.evaluation.calibration:
        curves = {f"calibration error {calibration['ece']:.3f}": calibration["bins"]}
        note = "On the dotted line a model knows how sure it may be; larger marks are more rows."
        drawings.append(charts.reliability("reliability", curves, note=note))
    return drawings


def _example(each: "CheckResult", row: "BrokenRow") -> Example:
    texts: list[TextPair] = []
    for column, before in row.original.items():
        after = row.changed[column]
        pieces = mark_letters(before, after)
        spaces = before != after and before.split() == after.split()
        texts.append(TextPair(column, *pieces, same=before == after, only_spaces=spaces))
    return Example("", each.check.name, row.index, "fooled", row.label, row.before, row.after, row.queries, texts)
