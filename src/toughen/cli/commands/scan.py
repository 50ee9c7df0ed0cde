"""Measure how robust any model is, without training: typos, casing, synonyms, PGD; one page.

Examples:
  toughen scan runs/rte-vat
  toughen scan path/to/model --file reviews.csv --limit 500
  toughen scan classify.py:probabilities --file reviews.csv --labels negative,positive
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...runs.progress import silence_libraries
from .. import say
from ..arguments import split_names
from ..tables import print_table, span

OPTIONS = ("file", "task", "dir", "text_column", "label_column", "labels", "synonyms", "lexicon", "out")
FLAGS = {name: f"--{name}" for name in OPTIONS}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a run, the folder of a model, a name on the Hub, or file.py:function"
    )
    parser.add_argument("--file", help="rows with labels: CSV, TSV, JSON, JSONL, Parquet, CoNLL; a run has its own")
    parser.add_argument("--task", help="scan on this set, such as sst2; a run knows its own")
    parser.add_argument("--dir", help="folder of sets on disk; a run knows its own")
    parser.add_argument("--split", default="validation", help="train, validation or test (default: validation)")
    parser.add_argument("--text_column", help="column of the text in --file, or two with a comma")
    parser.add_argument("--label_column", help="column of the label in --file")
    parser.add_argument("--labels", type=split_names, help="what a function's columns stand for, with commas")
    parser.add_argument("--limit", type=int, default=200, help="at most so many rows (default: 200)")
    parser.add_argument("--max_length", type=int, help="tokens a text is cut at; a run knows its own")
    parser.add_argument("--batch_size", type=int, help="rows of one pass (default: 64)")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples of an interval (default: 1000)")
    parser.add_argument("--synonyms", help="JSON file {word: [words]} or folder of WordNet; none: an installed one")
    parser.add_argument("--lexicon", help="text file, also as .gz: in each line a word and its misspellings")
    parser.add_argument("--out", help="folder of the page (default: scan/ in the model's folder, or here)")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")


def run(arguments: argparse.Namespace) -> int:
    from ...evaluation.scan import scan

    options = {key: value for key, value in vars(arguments).items() if key not in ("model", "json")}
    try:
        with silence_libraries():
            result = scan(_model(arguments.model), progress=True, **options)
    except KeyboardInterrupt:
        sys.stderr.write("toughen: interrupted; the same command goes on from here.\n")
        return 130
    if arguments.json:
        say(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
        return 0
    lines = [[each.check.title, span(*each.score), each.points, f"{each.seconds:.1f}"] for each in result.checks]
    rows = [["clean", span(*result.clean), "-", "-"], *lines]
    print_table([f"check, {result.rows} rows", f"{result.metric} (95 % interval)", "points lost", "seconds"], rows)
    if result.evaluation.calibration:
        say(f"calibration error {result.evaluation.calibration['ece']:.3f}")
    if weakest := result.weakest_slice:
        name, loss = weakest.worst
        say(f"suffers most: {weakest.kind} {weakest.name} ({weakest.rows} rows), {100 * loss:.1f} points under {name}")
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
    spec = importlib.util.spec_from_file_location(f"toughen_own_{path.stem}", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not there; give file.py:function.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"{file}, line {error.lineno}: {error.msg}.") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{file} has no function {name!r}; define {name}(texts), which returns probabilities.")
    return function
