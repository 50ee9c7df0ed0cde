"""`toughen compare RUNS...`"""

from typing import Any

HELP = "Runs side by side: mean and spread over seeds, paired tests, cost."


def add(parser: Any) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or folders of runs")
    parser.add_argument(
        "--by", choices=("run", "method"), default="run", help="one line a run, or a method's runs together"
    )
    parser.add_argument("--metric", help="by default the one that selects")
    parser.add_argument("--html", metavar="OUT", help="also write a page")


def run(arguments: Any) -> int:
    from ...reports import compare_runs, find_runs, report
    from ...reports.page import p_words, passes
    from ..tables import console, table

    out = console()
    for found in compare_runs(find_runs(arguments.runs), by=arguments.by, metric=arguments.metric):
        rows: list[list[str]] = []
        for row in found.rows:
            test, ratio = row.over_seeds, row.ratio.get("seconds_per_step")
            rows.append(
                [
                    row.name,
                    str(row.summary.count),
                    str(row.summary),
                    f"{row.summary.median:.4f}",
                    f"{test.difference:+.4f}" if test and test.count else "",
                    p_words(test.p, test.why) if test else "",
                    "\n".join(f"{t.test}: {p_words(t.p, t.why)}" for t in row.over_rows),
                    passes(row.cost),
                    f"{ratio:.2f}x" if ratio else "",
                ]
            )
        heads = [f"{found.rows[0].task}, {found.metric}", "seeds", "mean ± sd", "median"]
        heads += [f"against {found.rows[0].name}", "over seeds", "on rows", "F + B", "cost"]
        out.print(table(heads, rows))
        for note in found.notes:
            out.print(note, markup=False)
    if arguments.html:
        out.print(f"{report(arguments.runs, arguments.html, by=arguments.by)}", markup=False, soft_wrap=True)
    return 0
