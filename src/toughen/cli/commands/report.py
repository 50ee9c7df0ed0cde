"""`toughen report RUNS...`"""

from typing import Any

HELP = "One HTML page of a run, or of several side by side."


def add(parser: Any) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or folders of runs")
    parser.add_argument("--out", help="where the page goes (default: report.html in the run, or here for several)")
    parser.add_argument(
        "--by", choices=("run", "method"), default="run", help="one line a run, or a method's runs together"
    )
    parser.add_argument("--title", help="the page's title")


def run(arguments: Any) -> int:
    from ...reports import report
    from ..tables import console

    page = report(arguments.runs, arguments.out, by=arguments.by, title=arguments.title)
    console().print(f"{page}", markup=False, soft_wrap=True)
    return 0
