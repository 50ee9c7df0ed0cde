"""Write one HTML page of a run, or of several side by side.

Examples:
  toughen report runs/rte-vat
  toughen report runs --by method --out page.html
  toughen report runs/plain runs/vat --title "RTE, plain and VAT"
"""

import argparse

from ... import reports
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="Run folders, or folders of runs.")
    parser.add_argument("--out", help="Where the page goes (default: report.html in the run, or here for several).")
    parser.add_argument("--by", choices=("run", "method"), default="run", help="One line for each run, or each method.")
    parser.add_argument("--title", help="The page's title.")


def run(arguments: argparse.Namespace) -> int:
    skipped: list[str] = []
    runs = reports.find_runs(arguments.runs, skipped)
    for line in skipped:
        say(f"! {line}")
    say(reports.report([run.path for run in runs], arguments.out, by=arguments.by, title=arguments.title))
    return 0
