"""Write one HTML page of a run, or of several side by side."""

from typing import Any

from .. import say


def add(parser: Any) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or folders of runs")
    parser.add_argument("--out", help="where the page goes (default: report.html in the run, or here for several)")
    parser.add_argument(
        "--by", choices=("run", "method"), default="run", help="one line a run, or a method's runs together"
    )
    parser.add_argument("--title", help="the page's title")


def run(arguments: Any) -> int:
    from ...reports import report

    say(report(arguments.runs, arguments.out, by=arguments.by, title=arguments.title))
    return 0
