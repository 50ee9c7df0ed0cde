"""Predict with a run or a model: text, pair, file, stdin or a split of the run; CSV, JSONL or GLUE's TSV out.

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
from ...runs.progress import silence_libraries
from ...tasks.infer import WORDS, choice_columns
from ...tasks.read.files import FileFormat, Raw, match_column, read_rows
from ...tasks.read.rows import BadRow, numbered_columns, text_of
from ...tasks.spec import SPLITS, Task, options_of_caller
from .. import say
from ..arguments import check_new, split_names

if TYPE_CHECKING:
    from ...runs.predictor import Input, Prediction

Fields = Mapping[str, Any]
FLAGS = {name: f"--{name}" for name in ("text_column", "delimiter", "encoding")}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="Run folder, one of its seeds (RUN/seeds/2), or a model folder.")
    option = parser.add_argument_group("Texts").add_argument
    option("--text", action="append", default=[], help="A text; again for more.")
    option("--text_pair", "--text-pair", action="append", default=[], help="Its second text.")
    option("--file", help="Texts in CSV, TSV, Excel, JSON, JSONL or Parquet; - is stdin, one a line.")
    splits = (*SPLITS, "validation_mm", "test_mm")
    option("--split", choices=splits, help="A split of the run's own data, such as its test; _mm is MNLI's other half.")
    option("--dir", help="Folder of sets on disk for --split; a run knows its own.")
    option("--text_column", help="Column of the text, or two with a comma between them.")
    option("--delimiter", help="Delimiter of a table; inferred if omitted.")
    option("--encoding", help="Encoding of a file that is not UTF-8, such as cp1252.")
    option = parser.add_argument_group("Answers").add_argument
    option("--out", help="Where to write: .csv, .jsonl or .tsv; must be new. Without it stdout.")
    help = "By default that of --out, else plain; tsv is the table that GLUE's server takes."
    option("--format", choices=("plain", "csv", "jsonl", "tsv"), help=help)
    option("--batch_size", type=int, default=32, help="Texts of one pass.")
    option("--device", help="Where the model runs: cpu, cuda, cuda:1 (default: a GPU if there is one).")


def run(arguments: argparse.Namespace) -> int:
    from ...runs.predictor import load

    out = Path(arguments.out) if arguments.out else None
    if out is not None:
        check_new(out, "choose another --out")
    form = arguments.format or ("plain" if out is None else out.suffix.removeprefix("."))
    if form not in FORMATS:
        raise RunError(f"--out {out}: end it with .csv, .jsonl or .tsv, or give --format.")
    if not (arguments.text or arguments.file or arguments.split) and sys.stdin.isatty():
        raise RunError("nothing to predict: give --text, --file, --split, or texts on stdin.")
    predictor = load(arguments.run, device=arguments.device, batch_size=arguments.batch_size)
    if arguments.split:
        rows = _rows_of_split(arguments)
    else:
        with options_of_caller(*FLAGS):
            rows = list(_inputs(arguments, predictor.task))
    inputs = [given for given, _ in rows]
    text = FORMATS[form]([fields for _, fields in rows], predictor(inputs), predictor.task)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        say(f"{len(inputs)} predictions in {out}")
    return 0


def _rows_of_split(arguments: argparse.Namespace) -> "list[tuple[Input, Fields]]":
    """Return the rows of a split of the run's data as inputs, with their columns."""
    from ...evaluation import read_split

    if arguments.text or arguments.file:
        raise RunError("--split reads the run's own data; give it alone, or --text or --file instead.")
    with silence_libraries():
        task, rows = read_split(arguments.run, arguments.split, arguments.dir)
    if task.head == "choices":
        inputs: list[Input] = [{name: row[name] for name in task.columns} for row in rows]
    elif task.head == "tokens":
        inputs = list(rows["tokens"])
    else:
        texts = [list(rows[column]) for column in task.columns]
        inputs = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
    return [(given, _fields(given, task)) for given in inputs]


def _inputs(arguments: argparse.Namespace, task: Task) -> "Iterator[tuple[Input, Fields]]":
    """Yield each input, and what stands beside its prediction: of a file all its columns."""
    texts, seconds = arguments.text, arguments.text_pair
    if seconds and len(texts) != len(seconds):
        raise RunError(f"--text is given {len(texts)} times and --text_pair {len(seconds)} times.")
    for given in zip(texts, seconds, strict=True) if seconds else texts:
        yield given, _fields(given, task)
    if arguments.file == "-" or (not arguments.file and not texts):
        # Not splitlines: it also breaks at U+2028, U+0085 and form feeds, which stand within lines of text.
        for number, line in enumerate(sys.stdin.read().rstrip("\r\n").split("\n"), start=1):
            if not line.strip():  # left out, it would leave fewer answers than lines
                raise RunError(f"stdin, line {number}: it is empty; fill it in or leave the line out.")
            given = _line(line.removesuffix("\r"), task)
            yield given, _fields(given, task)
    elif arguments.file:
        columns = split_names(arguments.text_column or "")
        for raw in read_rows(Path(arguments.file), FileFormat(arguments.delimiter, arguments.encoding)):
            yield _row(raw, columns, task), raw.fields


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
        raise raw.error().for_caller(FLAGS)
    names, choices = [match_column(raw.fields, name) or name for name in given or task.columns], list[str]()
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


def _fields(given: "Input", task: Task) -> "Fields":
    """Return an input by the names of its columns."""
    if isinstance(given, Mapping):
        return given
    values = given if isinstance(given, tuple) else (given,)
    names = task.columns if len(values) <= len(task.columns) else ("text", "text_pair")  # of a plain model
    return dict(zip(names, values, strict=False))


def _kept(rows: "Sequence[Fields]", *added: str) -> "Iterator[Fields]":
    """Yield the fields of each row; one that has the name of what is added is kept under another."""
    for row in rows:
        yield {f"{name} (before)" if name in added else name: value for name, value in row.items()}


def _plain(rows: "Sequence[Fields]", predictions: "Sequence[Prediction]", task: Task) -> str:
    return "".join(f"{_shown(each.label, task, str(each))}\n" for each in predictions)


def _shown(label: object, task: Task, alone: str | None = None) -> str:
    """Return a label as text: names of a list side by side, another one as `alone`."""
    if isinstance(label, list):
        return (" " if task.head == "tokens" else ", ").join(label) or "-"
    return str(label) if alone is None else alone


def _jsonl(rows: "Sequence[Fields]", predictions: "Sequence[Prediction]", task: Task) -> str:
    lines: list[str] = []
    for fields, prediction in zip(_kept(rows, "prediction", "probabilities"), predictions, strict=True):
        row = {**fields, "prediction": prediction.label}
        row |= {"probabilities": dict(prediction.probabilities)} if prediction.probabilities else {}
        lines.append(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    return "".join(lines)


def _csv(rows: "Sequence[Fields]", predictions: "Sequence[Prediction]", task: Task) -> str:
    out, rows = io.StringIO(), list(_kept(rows, "prediction", "score"))
    columns = list(dict.fromkeys(name for row in rows for name in row)) or list(task.columns)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "prediction", "score"])
    for row, prediction in zip(rows, predictions, strict=True):
        cells = (*(row.get(name, "") for name in columns), prediction.label)
        values = [json.dumps(cell, default=str) if isinstance(cell, (list, dict, bool)) else cell for cell in cells]
        writer.writerow([*values, "" if prediction.score is None else f"{prediction.score:.6f}"])
    return out.getvalue()


def _tsv(rows: "Sequence[Fields]", predictions: "Sequence[Prediction]", task: Task) -> str:
    from ...tasks.catalog import GLUE
    from ...tasks.glue_zip import write_prediction

    glue = task.name in GLUE
    labels = [each.label for each in predictions]
    cells = [write_prediction(task, row, each) if glue else _shown(each, task) for row, each in enumerate(labels)]
    return "".join(["index\tprediction\n", *(f"{row}\t{cell}\n" for row, cell in enumerate(cells))])


FORMATS = {"plain": _plain, "csv": _csv, "jsonl": _jsonl, "tsv": _tsv}
