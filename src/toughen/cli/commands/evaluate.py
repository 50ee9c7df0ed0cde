"""`toughen evaluate RUN_OR_MODEL...`"""

import json
import sys
from typing import Any

HELP = "Score a run or a model on any split or file."


def add(parser: Any) -> None:
    parser.add_argument("paths", nargs="+", metavar="RUN_OR_MODEL", help="run folders, or folders of saved models")
    parser.add_argument("--task", help="evaluate on this set, such as hans or mnli-mm; a run knows its own")
    parser.add_argument("--split", default="validation", help="train, validation or test (default: validation)")
    parser.add_argument("--file", help="evaluate on the rows of this file: CSV, TSV, JSON, JSONL, Parquet, CoNLL")
    parser.add_argument("--dir", help="folder of sets on disk; a run knows its own")
    parser.add_argument("--text_column", help="column of the text in --file, or two with a comma")
    parser.add_argument("--label_column", help="column of the label in --file")
    parser.add_argument("--max_length", type=int, help="tokens a text is cut at; a run knows its own")
    parser.add_argument("--limit", type=int, help="at most so many rows")
    parser.add_argument("--batch_size", type=int, default=64, help="rows of one pass (default: 64)")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples of an interval (default: 1000)")
    parser.add_argument("--all_seeds", action="store_true", help="every seed of a run, and its baseline's")
    parser.add_argument("--all_checkpoints", action="store_true", help="every checkpoint that was kept")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")


def run(arguments: Any) -> int:
    from ...evaluation import evaluate

    _quiet()
    options = {key: value for key, value in vars(arguments).items() if key not in ("paths", "json", "command")}
    found = [(path, each) for path in arguments.paths for each in evaluate(path, **options)]
    if arguments.json:
        sys.stdout.write(json.dumps([each.to_dict() for _, each in found], indent=1, ensure_ascii=False) + "\n")
        return 0
    _print(found, many=len(arguments.paths) > 1)
    return 0


def _quiet() -> None:
    """No progress bars for what takes a moment."""
    from datasets import disable_progress_bars
    from transformers.utils import logging

    disable_progress_bars()
    logging.disable_progress_bar()


def _print(found: list[tuple[str, Any]], many: bool) -> None:
    from ..tables import console, table

    out = console()
    best = max(range(len(found)), key=lambda place: found[place][1].score)
    rows: list[list[str]] = []
    for place, (path, each) in enumerate(found):
        name = f"{path} · {each.name}" if many else each.name
        star = " *" if len(found) > 1 and place == best else ""
        ece = f"{each.calibration['ece']:.3f}" if each.calibration else "-"
        shown = each.metrics if len(found) == 1 else {each.metric: each.metrics[each.metric]}
        scores = "\n".join(f"{metric} {_span(value)}" for metric, value in shown.items())
        rows.append([f"{name}{star}", str(each.rows), scores, ece])
    out.print(table(["evaluation", "rows", "score (95 % interval)", "ECE"], rows))
    if len(found) == 1:
        _details(out, found[0][1])


def _details(out: Any, each: Any) -> None:
    from ..tables import table

    if each.per_class:
        wanted = ("precision", "recall", "f1")
        rows = [[n, *(f"{v[k]:.3f}" for k in wanted), str(v["rows"])] for n, v in each.per_class.items()]
        out.print(table(["class", "precision", "recall", "F1", "rows"], rows))
    for kind, parts in each.slices.items():
        rows = [[part["name"], f"{part[each.metric]:.3f}", str(part["rows"])] for part in parts]
        out.print(table([kind, each.metric, "rows"], rows))
    for note in each.notes:
        out.print(f"note: {note}", markup=False)


def _span(value: Any) -> str:
    if value["low"] is None:
        return f"{value['value']:.4f}"
    return f"{value['value']:.4f} ({value['low']:.3f} to {value['high']:.3f})"
