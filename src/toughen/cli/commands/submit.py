"""Write GLUE's submission zip from the test predictions of runs, checked.

Examples:
  toughen submit runs/glue-*
  toughen submit runs/glue-* --out vat.zip
  toughen submit runs/rte-vat --partial
"""

import argparse
from pathlib import Path
from typing import Any

from ... import tasks
from ...runs.errors import RunError
from ...runs.folder import RunFolder
from ...runs.results import read_predictions
from ...tasks.catalog import GLUE
from .. import say
from ..arguments import check_new

FLAGS = {"partial": "--partial"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="Run folders, one a task.")
    parser.add_argument("--out", default="submission.zip", help="The zip to write; must be new.")
    parser.add_argument("--partial", action="store_true", help="Allow missing tasks.")


def run(arguments: argparse.Namespace) -> int:
    from ...runs.prepare import EXTRA_EVAL_SETS

    out = Path(arguments.out)
    check_new(out, "choose another --out")
    # `toughen submit glue runs/*` reads well, and there is no other benchmark to name.
    runs = [Path(each) for each in arguments.runs if each != "glue" or Path(each).is_dir()]
    predictions: dict[str, Any] = {}
    for folder in runs:
        results = RunFolder(folder).results()
        if results.task not in GLUE:
            raise RunError(f"{folder} was trained on {results.task!r}, which is no task of GLUE.")
        tables = folder / results.best.folder / "predictions"
        if not (tables / "test.tsv").is_file():
            raise RunError(f"{folder} has no test predictions: its data had no test split.")
        if results.task in predictions:
            raise RunError(f"two of the runs are of {results.task}; give one a task.")
        predictions[results.task] = read_predictions(tables / "test.tsv")
        for ending, name in EXTRA_EVAL_SETS.get(results.task, {}).items():
            if (tables / f"test_{ending}.tsv").is_file():
                predictions[name] = read_predictions(tables / f"test_{ending}.tsv")
    say(tasks.submission(predictions, out, partial=arguments.partial))
    return 0
