"""`toughen predict`."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HELP = "Predict with a run or a model: text, pair, file or stdin; CSV or JSONL out."


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="Run folder, one of its seeds (RUN/seeds/2), or a model folder.")
    parser.add_argument("--text", action="append", default=[], help="A text; again for more.")
    parser.add_argument("--text_pair", "--text-pair", action="append", default=[], help="Its second text.")
    parser.add_argument("--file", help="CSV, TSV, JSON, JSONL or Parquet with the texts; - is stdin, one a line.")
    parser.add_argument("--text_column", help="Column of the text, or two with a comma between them.")
    parser.add_argument("--delimiter", help="Of a table, when it is not found out rightly.")
    parser.add_argument("--encoding", help="Of a file that is not UTF-8, such as cp1252.")
    parser.add_argument("--out", help="Where to write: .csv or .jsonl; must be new. Without it stdout.")
    parser.add_argument("--format", choices=("plain", "csv", "jsonl"), help="By default that of --out, else plain.")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...")


def run(arguments: argparse.Namespace) -> int:
    from ...internal.atomic import write_text
    from ...runs.errors import RunError
    from ...runs.predictor import load

    out = Path(arguments.out) if arguments.out else None
    if out is not None and out.exists():
        raise RunError(f"{out} is there already and nothing is overwritten; choose another --out.")
    form = arguments.format or ({".csv": "csv", ".jsonl": "jsonl"}.get(out.suffix) if out else "plain")
    if form is None:
        raise RunError(f"--out {out}: end it with .csv or .jsonl, or give --format.")
    if not arguments.text and not arguments.file and sys.stdin.isatty():
        raise RunError("nothing to predict: give --text, --file, or texts on stdin.")
    predictor = load(arguments.run, device=arguments.device, batch_size=arguments.batch_size)
    inputs = list(_inputs(arguments, predictor.task))
    text = FORMATS[form](inputs, predictor(inputs), predictor.task)
    if out is not None:
        write_text(out, text)
        sys.stdout.write(f"{len(inputs)} predictions in {out}\n")
    else:
        sys.stdout.write(text)
    return 0


def _inputs(arguments: argparse.Namespace, task: Any) -> Iterator[Any]:
    from ...runs.errors import RunError
    from ...tasks.read.files import FileFormat
    from ...tasks.spec import DataError

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
        form = FileFormat(arguments.delimiter, arguments.encoding)
        try:
            yield from _rows(Path(arguments.file), arguments.text_column, task, form)
        except DataError as error:
            told = str(error.for_caller(("text_column", "delimiter", "encoding")))
            told = told.replace('encoding="cp1252"', "--encoding cp1252").replace("text_column=", "--text_column")
            raise RunError(told) from error


def _line(line: str, task: Any) -> Any:
    """A line of stdin: a text, a pair with a tab between, or JSON for multiple choice."""
    if task.head == "choices":
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            raise ValueError(f"{line[:40]!r} is not JSON; write context, question and choices of a row.") from None
    return tuple(line.split("\t")) if len(task.columns) == 2 else line


def _rows(path: Path, asked: str | None, task: Any, form: Any) -> Iterator[Any]:
    from ...runs.errors import RunError
    from ...tasks.infer import WORDS
    from ...tasks.read.files import check_file, read_rows
    from ...tasks.read.rows import BadRow, text_of

    check_file(path)
    given = [part.strip() for part in asked.split(",")] if asked else []
    for raw in read_rows(path, form):
        if raw.problem:
            raise RunError(f"{raw.location}: {raw.problem.problem}.")
        names, choices = given or list(task.columns), []
        if task.head == "choices":
            names, choices = _choices(path, raw, given)
        elif task.head == "tokens" and not given:
            names = [next((name for name in WORDS if name in raw.fields), names[0])]
        missing = [name for name in names if name and name not in raw.fields]
        if missing:
            raise RunError(
                f"{path}, row {raw.row}: there is no column {missing[0]!r}; it has "
                f"{', '.join(map(repr, raw.fields))}; name the right one with --text_column."
            )
        if task.head == "tokens":
            yield raw.fields[names[0]]
            continue
        try:
            texts = [text_of(raw.fields[name], name) if name else "" for name in names]
        except BadRow as bad:
            raise RunError(f"{raw.location}: {bad.kind}; fill it in or leave the row out.") from None
        if task.head == "choices":
            yield {"context": texts[0], "question": texts[1], "choices": choices}
        else:
            yield tuple(texts) if len(texts) > 1 else texts[0]


def _choices(path: Path, raw: Any, asked: list[str]) -> tuple[list[str], list[Any]]:
    """The columns of context and question (or ""), and the choices, from a list or from columns of their own."""
    from ...runs.errors import RunError
    from ...tasks.infer import choice_columns
    from ...tasks.read.rows import numbered_columns

    context, question, listed = choice_columns(path, raw.row, raw.fields, asked)
    found = raw.fields[listed] if listed else [raw.fields[name] for name in numbered_columns(raw.fields)]
    if not found:
        raise RunError(
            f"{path}, row {raw.row}: there are no choices; write a list 'choices' or columns choice0, choice1, ...; "
            f"it has {', '.join(map(repr, raw.fields))}."
        )
    return [context, question], [str(choice) for choice in found]


def _fields(given: Any, task: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    values = given if isinstance(given, tuple) else (given,)
    names = task.columns if len(values) <= len(task.columns) else ("text", "text_pair")  # of a plain model
    return dict(zip(names, values, strict=False))


def _plain(inputs: list[Any], predictions: list[Any], task: Any) -> str:
    between = " " if task.head == "tokens" else ", "
    said = [between.join(each.label) or "-" if isinstance(each.label, list) else str(each) for each in predictions]
    return "".join(f"{line}\n" for line in said)


def _jsonl(inputs: list[Any], predictions: list[Any], task: Any) -> str:
    lines: list[str] = []
    for given, said in zip(inputs, predictions, strict=True):
        row = {**_fields(given, task), "prediction": said.label}
        row |= {"probabilities": dict(said.probabilities)} if said.probabilities else {}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def _csv(inputs: list[Any], predictions: list[Any], task: Any) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = max((list(_fields(given, task)) for given in inputs), key=len, default=list(task.columns))
    writer.writerow([*columns, "prediction", "score"])
    for given, said in zip(inputs, predictions, strict=True):
        fields = [value if isinstance(value, str) else json.dumps(value) for value in _fields(given, task).values()]
        label = said.label if isinstance(said.label, (str, float)) else json.dumps(said.label)
        writer.writerow([*fields, label, "" if said.score is None else f"{said.score:.6f}"])
    return out.getvalue()


FORMATS = {"plain": _plain, "csv": _csv, "jsonl": _jsonl}
