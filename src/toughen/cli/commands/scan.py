"""Measure how robust any model is, without training: typos, casing, synonyms, PGD; one page.

Examples:
  toughen scan runs/rte-vat
  toughen scan path/to/model --file reviews.csv --limit 500
  toughen scan classify.py:probabilities --file reviews.csv --labels negative,positive
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UsageError, count_of, import_file
from ...runs.progress import silence_libraries
from .. import say
from ..arguments import add_rows, split_names
from ..tables import print_table, span

OPTIONS = (
    *("file", "task", "dir", "text_column", "label_column", "delimiter", "encoding", "on_bad", "labels"),
    *("synonyms", "lexicon", "out"),
)
FLAGS = {name: f"--{name}" for name in OPTIONS}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="A run, the folder of a model, a name on the Hub, or file.py:function."
    )
    add_rows(parser, "Scan on this set, such as sst2.", limit=200)
    option = parser.add_argument_group("Words").add_argument
    option("--synonyms", help="JSON file {word: [words]} or folder of WordNet; none: an installed one.")
    option("--lexicon", help="Text file, also as .gz, with a word and its misspellings in each line.")
    parser.add_argument("--labels", type=split_names, help="What the columns of a function stand for, with commas.")
    parser.add_argument("--out", help="Folder of the page (default: scan/ in the model's folder, or here).")
    parser.add_argument("--json", action="store_true", help="Print JSON in place of tables.")


def run(arguments: argparse.Namespace) -> int:
    from ...evaluation.scan import scan

    options = {key: value for key, value in vars(arguments).items() if key not in ("model", "json")}
    try:
        with silence_libraries():
            result = scan(_model(arguments.model), progress=True, **options)
    except KeyboardInterrupt:
        sys.stderr.write("toughen: interrupted; run the same command to continue.\n")
        return 130
    if arguments.json:
        say(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
        return 0
    lines = [[each.check.title, span(*each.score), each.points, f"{each.seconds:.1f}"] for each in result.checks]
    rows = [["clean", span(*result.clean), "-", "-"], *lines]
    print_table(
        [f"check, {count_of(result.rows, 'row')}", f"{result.metric} (95 % interval)", "points lost", "seconds"], rows
    )
    if result.evaluation.calibration:
        say(f"calibration error {result.evaluation.calibration['ece']:.3f}")
    if weakest := result.weakest_slice:
        name, loss = weakest.worst
        say(
            f"suffers most: {weakest.kind} {weakest.name} ({count_of(weakest.rows, 'row')}), "
            f"{100 * loss:.1f} points under {name}"
        )
    for name, reason in result.left_out.items():
        say(f"left out: {name}: {reason}")
    for note in result.notes:
        say(f"note: {note}")
    for line in result.advice:
        say(f"what would help: {line}")
    say(f"page: {result.page}")
    say(result.decision)
    return 0


def _model(given: str) -> str | Callable[[list[Any]], Any]:
    """Return a path or a name as it is, and file.py:function as the function."""
    file, colon, name = given.rpartition(":")
    if not colon or not file.endswith(".py"):
        return given
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{file} does not exist; give file.py:function.")
    function = getattr(import_file(path, UsageError), name, None)
    if not callable(function):
        raise UsageError(f"{file} has no function {name!r}; define {name}(texts), which returns probabilities.")
    return function
