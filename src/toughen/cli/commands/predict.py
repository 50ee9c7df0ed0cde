"""Predict with a run or a model: text, pair, file or stdin; CSV or JSONL out.

Examples:
  toughen predict runs/sst2-vat --text "a warm film" --text "a dull film"
  toughen predict runs/rte-vat --file pairs.csv --text_column premise,hypothesis --out answers.csv
  toughen predict path/to/model --file - --format jsonl < texts.txt
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...internal.atomic import write_text
from ...runs.errors import RunError
from ...tasks.infer import WORDS, choice_columns
from ...tasks.read.files import FileFormat, Raw, read_rows
from ...tasks.read.rows import BadRow, numbered_columns, text_of
from ...tasks.spec import Task, options_of_caller
from .. import say
from ..arguments import check_new, split_names

if TYPE_CHECKING:
    from ...runs.predictor import Input, Prediction

FLAGS = {name: f"--{name}" for name in ("text_column", "delimiter", "encoding")}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="Run folder, one of its seeds (RUN/seeds/2), or a model folder.")
    option = parser.add_argument_group("Texts").add_argument
    option("--text", action="append", default=[], help="A text; again for more.")
    option("--text_pair", "--text-pair", action="append", default=[], help="Its second text.")
    option("--file", help="CSV, TSV, JSON, JSONL or Parquet with the texts; - is stdin, one a line.")
    option("--text_column", help="Column of the text, or two with a comma between them.")
    option("--delimiter", help="Delimiter of a table; inferred if omitted.")
    option("--encoding", help="Encoding of a file that is not UTF-8, such as cp1252.")
    option = parser.add_argument_group("Answers").add_argument
    option("--out", help="Where to write: .csv or .jsonl; must be new. Without it stdout.")
    option("--format", choices=("plain", "csv", "jsonl"), help="By default that of --out, else plain.")
    option("--batch_size", type=int, default=32, help="Texts of one pass.")
    option("--device", help="Where the model runs: cpu, cuda, cuda:1 (default: a GPU if there is one).")


def run(arguments: argparse.Namespace) -> int:
    from ...runs.predictor import load

    out = Path(arguments.out) if arguments.out else None
    if out is not None:
        check_new(out, "choose another --out")
    form = arguments.format or ({".csv": "csv", ".jsonl": "jsonl"}.get(out.suffix) if out else "plain")
    if form is None:
        raise RunError(f"--out {out}: end it with .csv or .jsonl, or give --format.")
    if not arguments.text and not arguments.file and sys.stdin.isatty():
        raise RunError("nothing to predict: give --text, --file, or texts on stdin.")
    predictor = load(arguments.run, device=arguments.device, batch_size=arguments.batch_size)
    with options_of_caller(*FLAGS):
        inputs = list(_inputs(arguments, predictor.task))
    text = FORMATS[form](inputs, predictor(inputs), predictor.task)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        say(f"{len(inputs)} predictions in {out}")
    return 0


def _inputs(arguments: argparse.Namespace, task: Task) -> "Iterator[Input]":
    texts, seconds = arguments.text, arguments.text_pair
    if seconds and len(texts) != len(seconds):
        raise RunError(f"--text is given {len(texts)} times and --text_pair {len(seconds)} times.")
    yield from zip(texts, seconds, strict=True) if seconds else texts
    if arguments.file == "-" or (not arguments.file and not texts):
        # Not splitlines: it also breaks at U+2028, U+0085 and form feeds, which stand within lines of text.
        for number, line in enumerate(sys.stdin.read().rstrip("\r\n").split("\n"), start=1):
            if not line.strip():  # left out, it would leave fewer answers than lines
                raise RunError(f"stdin, line {number}: it is empty; fill it in or leave the line out.")
            yield _line(line, task)
    elif arguments.file:
        columns = split_names(arguments.text_column or "")
        for raw in read_rows(Path(arguments.file), FileFormat(arguments.delimiter, arguments.encoding)):
            yield _row(raw, columns, task)


def _line(line: str, task: Task) -> "Input":
    """Return a line of stdin as input: a text, a pair with a tab between, or JSON for multiple choice."""
    if task.head == "choices":
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            raise ValueError(f"{line[:40]!r} is not JSON; write context, question and choices of a row.") from None
    return tuple(line.split("\t")) if len(task.columns) == 2 else line


def _row(raw: Raw, given: Sequence[str], task: Task) -> "Input":
    """Return a row of a file as input; `given` are the columns of the text."""
    if raw.problem:
        raise RunError(f"{raw.location}: {raw.problem.problem}.")
    names, choices = given or list(task.columns), list[str]()
    if task.head == "choices":
        *names, listed = choice_columns(raw.path, raw.row, raw.fields, given)  # no question is ""
        choices = raw.fields[listed] if listed else [raw.fields[name] for name in numbered_columns(raw.fields)]
        if not choices:
            raise RunError(
                f"{raw.path}, row {raw.row}: there are no choices; write a list 'choices' or columns choice0, "
                f"choice1, ...; it has {', '.join(map(repr, raw.fields))}."
            )
    elif task.head == "tokens" and not given:
        names = [next((name for name in WORDS if name in raw.fields), names[0])]
    if missing := [name for name in names if name and name not in raw.fields]:
        raise RunError(
            f"{raw.path}, row {raw.row}: there is no column {missing[0]!r}; it has "
            f"{', '.join(map(repr, raw.fields))}; name the right one with --text_column."
        )
    if task.head == "tokens":
        return raw.fields[names[0]]
    try:
        texts = [text_of(raw.fields[name], name) if name else "" for name in names]
    except BadRow as bad:
        raise RunError(f"{raw.location}: {bad.kind}; fill it in or leave the row out.") from None
    if task.head == "choices":
        return {"context": texts[0], "question": texts[1], "choices": [str(choice) for choice in choices]}
    return tuple(texts) if len(texts) > 1 else texts[0]


def _fields(given: "Input", task: Task) -> Mapping[str, Any]:
    """Return an input by the names of its columns."""
    if isinstance(given, Mapping):
        return given
    values = given if isinstance(given, tuple) else (given,)
    names = task.columns if len(values) <= len(task.columns) else ("text", "text_pair")  # of a plain model
    return dict(zip(names, values, strict=False))


def _plain(inputs: "Sequence[Input]", predictions: "Sequence[Prediction]", task: Task) -> str:
    between = " " if task.head == "tokens" else ", "
    shown = [between.join(each.label) or "-" if isinstance(each.label, list) else str(each) for each in predictions]
    return "".join(f"{line}\n" for line in shown)


def _jsonl(inputs: "Sequence[Input]", predictions: "Sequence[Prediction]", task: Task) -> str:
    lines: list[str] = []
    for given, prediction in zip(inputs, predictions, strict=True):
        row = {**_fields(given, task), "prediction": prediction.label}
        row |= {"probabilities": dict(prediction.probabilities)} if prediction.probabilities else {}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def _csv(inputs: "Sequence[Input]", predictions: "Sequence[Prediction]", task: Task) -> str:
    out, rows = io.StringIO(), [_fields(given, task) for given in inputs]
    columns = max(map(list, rows), key=len, default=list(task.columns))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "prediction", "score"])
    for row, prediction in zip(rows, predictions, strict=True):
        cells = (*row.values(), prediction.label)
        values = [cell if isinstance(cell, (str, float)) else json.dumps(cell) for cell in cells]
        writer.writerow([*values, "" if prediction.score is None else f"{prediction.score:.6f}"])
    return out.getvalue()


FORMATS = {"plain": _plain, "csv": _csv, "jsonl": _jsonl}
