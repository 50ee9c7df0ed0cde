"""Compare runs: mean and spread over seeds, paired tests, cost.

Examples:
  toughen compare runs/plain runs/vat
  toughen compare runs --by method --metric accuracy
  toughen compare runs/rte-* --html compare.html
"""

import argparse

from ... import reports
from ...reports.formatting import format_p, format_passes
from .. import say
from ..tables import print_table


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="Run folders, or folders of runs.")
    parser.add_argument("--by", choices=("run", "method"), default="run", help="One line for each run, or each method.")
    parser.add_argument("--metric", help="The score to compare (default: the one that selects).")
    parser.add_argument("--html", metavar="OUT", help="Also write a page to this file.")


def run(arguments: argparse.Namespace) -> int:
    skipped: list[str] = []
    runs = reports.find_runs(arguments.runs, skipped)
    for line in skipped:
        say(f"! {line}")
    for comparison in reports.compare_runs(runs, by=arguments.by, metric=arguments.metric):
        rows: list[list[str]] = []
        for row in comparison.rows:
            test, ratio = row.over_seeds, row.ratio.get("seconds_per_step")
            change = f"{test.difference:+.4f}" if test and test.count else ""
            p = format_p(test.p, "-").removeprefix("p ").removeprefix("= ") if test else ""
            times = f"{ratio:.2f}x" if ratio else ""
            rows.append([row.name, str(row.summary.count), str(row.summary), change, p, format_passes(row.cost), times])
        heads = [str(comparison.rows[0].task), "seeds", comparison.metric, "difference", "p", "F + B", "cost"]
        print_table(heads, rows)
        for line in (*_details(comparison), *comparison.notes):
            say(line)
    if arguments.html:
        say(reports.report([run.path for run in runs], arguments.html, by=arguments.by))
    return 0


def _details(comparison: "reports.Comparison") -> list[str]:
    """Return what the columns cannot hold: the tests by name, medians, and why there is no p."""
    lines = [f"Median: {', '.join(f'{row.name} {row.summary.median:.4f}' for row in comparison.rows)}."]
    if len(comparison.rows) > 1:
        lines.append(f"Difference from {comparison.reference}; p of a paired t test over the seeds both have.")
    for row in comparison.rows[1:]:
        if row.over_seeds is not None and row.over_seeds.p is None:
            lines.append(f"{row.name}: no p over seeds, {row.over_seeds.why}.")
        for test in row.over_rows:
            span = f", {test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})" if test.low is not None else ""
            lines.append(
                f"{row.name}, rows of one seed: {test.test}{':' * (test.p is None)} {format_p(test.p, test.why)}{span}."
            )
    return lines
