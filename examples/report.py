"""Two short runs of the demo, their comparison, and the page, on a tiny random model."""

import tempfile
from pathlib import Path

from toughen.demo import demo, run_demo
from toughen.reports import compare_runs, find_runs, report

run_demo.PACKAGE = "a package that is not there"  # the tiny model even where the real one is installed

with tempfile.TemporaryDirectory() as folder:
    demo(folder, seeds=[1, 2], limit=32, say=lambda line: None)
    for comparison in compare_runs(find_runs([folder])):
        for row in comparison.rows:
            print(f"{row.name:8} {comparison.metric} {row.summary}  {row.cost['forward']:g} forward passes a step")
    page = report(folder, Path(folder) / "all.html")
    print(f"{page.name}: {page.stat().st_size // 1024} kB, nothing beside it")
