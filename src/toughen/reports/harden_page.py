"""The page of a hardening: whether the index can stay, vectors and neighbours before and after, and queries."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..internal.atomic import write_text
from . import charts
from .render import Card, render

if TYPE_CHECKING:
    from ..hardening.measure import Mean, Measurement, Query


def write_page(
    path: Path,
    title: str,
    verdict: str,
    rows: "list[Measurement]",
    queries: "list[Query]",
    *,
    texts: int,
    notes: list[str],
) -> None:
    """Write the page of a hardening."""
    neighbours = {each.name: _bars(each.overlap_before, each.overlap_after) for each in rows}
    cosines = {each.name: _bars(each.cosine_before, each.cosine_after) for each in rows}
    interval = "With 95 % intervals over texts."
    write_text(
        path,
        render(
            "harden.html",
            kind="hardening",
            title=title,
            verdicts=[verdict],
            cards=[_card(each) for each in rows],
            rows=rows,
            queries=queries,
            texts=texts,
            notes=notes,
            drawings=[
                charts.bars("nearest ten kept", neighbours, y="share of the clean query's", note=interval),
                charts.bars("cosine to the old vector", cosines, y="cosine", note=interval),
            ],
        ),
    )


def _bars(before: "Mean", after: "Mean") -> dict[str, charts.Interval]:
    return {"before": before.interval, "after": after.interval}


def _card(row: "Measurement") -> Card:
    before = "" if row.noise == "clean" else f", before {row.overlap_before.value:.2f}"
    return Card(row.name, f"{row.overlap_after.value:.2f}", f"nearest ten kept{before}")
