"""`toughen.scan`: how robust a saved model or a function is, without any training; one page."""

import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..attacks.base import Attack
from ..attacks.runner import read_records, run_attack, say
from ..attacks.target import Target
from ..attacks.victim import FunctionVictim, TextFunction
from ..errors import UsageError
from ..internal.atomic import write_json
from ..reports.scan_page import write_page
from ..runs.progress import format_duration
from ..tasks import load
from ..tasks.spec import DataError, Task, options_of_caller
from .advice import advice
from .checks import Check, make_checks, misfit
from .evaluate_model import (
    KNOWN,
    ModelRef,
    check_counts,
    check_split,
    clean_pass,
    model_refs,
    read_rows,
    rows_name,
    selected_options,
)
from .measures import Evaluation, measure, text_slices
from .outputs import Outputs
from .scan_results import Scan, check_result, slices

if TYPE_CHECKING:
    from datasets import Dataset


ROWS = 200


def scan(
    model: "str | os.PathLike[str] | Callable[[list[Any]], Any]",
    *,
    file: "str | os.PathLike[str] | None" = None,
    task: str | Task | None = None,
    dir: "str | os.PathLike[str] | None" = None,
    split: str = "validation",
    text_column: str | None = None,
    label_column: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bad: Literal["error", "skip"] | None = None,
    labels: Sequence[str] | None = None,
    limit: int | None = ROWS,
    max_length: int | None = None,
    batch_size: int | None = None,
    samples: int = 1000,
    synonyms: "str | os.PathLike[str] | None" = None,
    lexicon: "str | os.PathLike[str] | None" = None,
    out: "str | os.PathLike[str] | None" = None,
    progress: bool = False,
) -> Scan:
    """Measure how robust a model is, without training it; write one page and return what is on it.

    An interrupted scan goes on when it is called again.

    Args:
        model: A run, the folder of a model, a name on the Hugging Face Hub, or a function from a list of texts (or of
            pairs of texts) to probabilities: a row for each text, a column for each label.
        file: Rows with labels; a run has its own.
        task: A published set, such as "sst2".
        dir: The folder of named tasks on this machine.
        split: Which part of the data.
        text_column: The column of texts in the file.
        label_column: The column of labels.
        delimiter: Of a table; inferred if omitted.
        encoding: Of a file that is not UTF-8.
        on_bad: Rows that cannot be used: "error" stops, "skip" leaves them out.
        labels: What the columns of a function stand for; by default the labels of the file, sorted.
        limit: The number of rows at most, drawn by seed; None takes all.
        max_length: Tokens at which texts are cut.
        batch_size: Rows that go through the model at once.
        samples: Bootstrap samples over rows, for the 95 % intervals.
        synonyms: A JSON file {word: [words]} or a folder of WordNet; without it an installed one is used, or none.
        lexicon: A text file with a word and its misspellings in each line.
        out: The folder of page and results; by default scan/ in that of the model.
        progress: Say how far the checks are.

    Returns:
        Scores and paired losses; `decision` is the sentence to read first.

    Raises:
        DataError: No model in the folder, rows without labels or of one class, empty texts, a function that returns no
            probabilities or two answers to one text.

    Examples:
        >>> scanned = toughen.scan(run, limit=8)
        >>> scanned.checks[0].check.name
        'typos'
    """
    began = time.perf_counter()
    check_counts(batch_size=batch_size, samples=samples, max_length=max_length, limit=limit)
    made, left_out = make_checks({"synonyms": synonyms, "lexicon": lexicon})
    reading = {"text_column": text_column, "label_column": label_column, "delimiter": delimiter, "encoding": encoding}
    source = Source(file, task, dir, split, reading | {"on_bad": on_bad}, limit, batch_size, samples)
    if callable(model):
        subject = function_subject(model, source, labels)
    elif labels is not None:
        raise UsageError(
            "labels= names the columns of a function; those of a model are in its config.json.", ["labels"]
        )
    else:
        subject = saved_subject(model, source, max_length)
    home, target = Path(out) if out is not None else subject.home, subject.target
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{home} cannot be created ({error.strerror}); give out= (--out).", ["out"]) from None
    fitting: list[tuple[Check, Attack]] = []
    for check, attack in made:
        if reason := misfit(attack, target):
            left_out[check.name] = reason
        else:
            fitting.append((check, attack))
    pace = _Pace(subject.seconds)
    results = []
    for number, (check, attack) in enumerate(fitting):
        left = format_duration(pace.seconds(each.passes for each, _ in fitting[number:]))
        say(f"scan {number + 1}/{len(fitting)}: {check.title} · about {left} left", progress)
        with pace.measured(check.passes):
            found = run_attack(attack, target, home=home, model=subject.folder, where=check.name, progress=progress)
        records = read_records(home / "attacks" / f"{found.name}{attack.records_ending}")
        changed = attack.changed_rows(target, records)
        results.append(check_result(check, target, changed, found.summary.seconds, found.summary.notes))
    result = Scan(
        model=subject.name,
        task=target.task,
        metric=target.metric,
        rows=len(target.rows),
        clean=target.score(target.answers()),
        evaluation=subject.evaluation,
        checks=results,
        left_out=left_out,
        slices=slices(target, results),
        advice=advice(target.task),
        page=home / "scan.html",
        seconds=round(time.perf_counter() - began, 1),
        notes=[*subject.evaluation.notes, *(f"{each.check.name}: {note}" for each in results for note in each.notes)],
    )
    write_json(home / "scan.json", result.to_dict())
    write_page(result)
    return result


class _Pace:
    """Seconds of a pass over the rows, as far as they are known."""

    def __init__(self, clean: float) -> None:
        self.spent, self.passes = clean, 1.0

    def seconds(self, passes: Iterable[float]) -> float:
        return sum(passes) * self.spent / self.passes

    @contextmanager
    def measured(self, passes: float) -> Generator[None]:
        began = time.perf_counter()
        yield
        if (seconds := time.perf_counter() - began) > 0.1:  # else its results were there already
            self.spent, self.passes = self.spent + seconds, self.passes + passes


_WEIGHTS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")


@dataclass(frozen=True)
class Subject:
    """A model with its answers to unchanged rows, and where the results of its scan go."""

    name: str
    target: Target
    evaluation: Evaluation
    home: Path
    seconds: float
    """Of one pass over the rows."""
    folder: Path | None = None
    """Of its weights; a function has none."""


@dataclass(frozen=True)
class Source:
    """The rows of a scan, and how they are read."""

    file: Any = None
    task: str | Task | None = None
    dir: Any = None
    split: str = "validation"
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options that read a file, those not given None."""
    limit: int | None = None
    batch_size: int | None = None
    samples: int = 1000


@options_of_caller(*KNOWN)
def saved_subject(model: Any, source: Source, max_length: int | None) -> Subject:
    """Return a run's model, that of a folder, or one of the Hub."""
    ref = _model_ref(model)
    data = read_rows(ref, source.task, source.split, source.file, source.dir, dict(source.reading), source.limit)
    check_rows(getattr(data, source.split), data.task)
    about = (source.file, source.limit, max_length, source.batch_size, source.samples)
    clean = clean_pass(ref, data, source.split, *about)
    target = clean.target(data.task, batch_size=source.batch_size, split=source.split, samples=source.samples)
    name = Path(model).resolve().name if Path(model).is_dir() else str(model)
    return Subject(name, target, clean.evaluation, ref.home / "scan" / clean.evaluation.name, clean.seconds, ref.model)


def _model_ref(model: Any) -> ModelRef:
    if Path(model).is_dir():
        return model_refs(model)[0]
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(model)):
        raise DataError(f"{model} is not a folder; give a run, a saved model, or a name on the Hugging Face Hub.")
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(str(model), allow_patterns=list(_WEIGHTS)))
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise DataError(f"{model} is not a folder, and it cannot be loaded from the Hub: {why}") from None
    return ModelRef(folder, Path("scan") / str(model).replace("/", "--"))


@options_of_caller(*KNOWN, "labels")
def function_subject(function: TextFunction, source: Source, labels: Sequence[str] | None) -> Subject:
    """Return a function with its answers; it is called on a few rows first, twice."""
    if hasattr(function, "save_pretrained"):
        kind = type(function).__name__
        raise DataError(f"{kind} takes token ids, not texts: save it with its tokenizer and give that folder.")
    if source.file is None and source.task is None:
        raise DataError("a function has no rows of its own: give file= (--file), or task= with dir=.")
    check_split(source.split)
    given: dict[str, Any] = selected_options(source.reading, tuple(source.reading))
    given |= {"dir": source.dir} if source.file is None else {f"{source.split}_file": source.file}
    data = load(source.task, labels=labels, limit=source.limit, **given)
    split = getattr(data, source.split)
    if split is None:
        raise DataError(f"{data.task.name!r} has no split {source.split!r}; it has {', '.join(data.splits)}.")
    check_rows(split, data.task)
    rows = [dict(row) for row in split]
    victim = FunctionVictim(function, data.task, batch_size=source.batch_size)
    victim.refuse_random(rows)
    began = time.perf_counter()
    logits, y_true = victim.exact(rows), np.asarray(split["label"])
    seconds = time.perf_counter() - began
    words = [sum(len(text.split()) for text in victim.key(row)) for row in rows]
    cut = source.limit if len(rows) == source.limit else None
    notes = [f"the function's columns are taken for {', '.join(data.task.labels)}; labels= names another order"]
    evaluation = measure(
        data.task,
        Outputs(logits, y_true, words),
        name=rows_name(ModelRef(Path(), Path()), data.task, source.split, source.file, cut),
        split=source.split,
        columns=text_slices(data.task, rows),
        samples=source.samples,
        model=victim.name,
        notes=[*map(str, data.doubts), *(notes if data.task.labels and labels is None else ())],
    )
    target = Target(victim, rows, logits, y_true, split=source.split, samples=source.samples)
    place = re.sub(r"[^\w.-]+", "-", victim.name).strip("-") or "function"
    return Subject(victim.name, target, evaluation, Path("scan") / place / evaluation.name, seconds)


def check_rows(split: "Dataset", task: Task) -> None:
    """Refuse rows that no score can be made of: without labels, of one class, without texts."""
    if "label" not in split.column_names:
        raise DataError("these rows have no label, and a scan needs them; name the column with label_column=.")
    for column in task.columns:
        if column == "question":  # of multiple choice, it may be empty
            continue
        texts: list[Any] = list(split[column])
        empty = [n for n, text in enumerate(texts) if not (text.strip() if isinstance(text, str) else text)]
        if empty:
            raise DataError(
                f"{len(empty)} of {len(texts)} texts in {column!r} are empty, that of row {empty[0] + 1} first; remove "
                "these rows, or name another column with text_column=."
            )
    if task.head == "classes":
        found = sorted(set(map(int, split["label"])))
        if len(found) < 2:
            only = task.labels[found[0]] if 0 <= found[0] < len(task.labels) else "none"
            raise DataError(f"all {len(split)} rows have the label {only!r}; give rows of two classes or more.")
