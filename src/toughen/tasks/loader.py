"""Load data by the name of a task or from the user's own files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import count_of
from . import subsample
from .infer import infer_task
from .read.arrow import stored, streamed
from .read.files import FileFormat, check_file, describe, is_conll, parallel_files, tag_scheme
from .read.folder import find_splits
from .read.hub import hub_split
from .read.rows import FileSource, OnBad, all_multi_hot, is_missing
from .registry import task as task_named
from .spec import SPLITS, Data, DataError, Head, Message, Option, Task

PathLike = str | os.PathLike[str]


def load(
    task: str | Task | None = None,
    *,
    dir: PathLike | None = None,
    train_file: PathLike | None = None,
    validation_file: PathLike | None = None,
    test_file: PathLike | None = None,
    text_column: str | Sequence[str] | None = None,
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    head: Head | None = None,
    splits: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    quoting: bool | None = None,
    label_separator: str | None = None,
    tag_column: int = -1,
    max_line: int = 1_000_000,
    on_bad: OnBad = "error",
    validation_share: float = 0.1,
    select_on_train: bool = False,
    limit: int | None = None,
    few_shot: int | None = None,
    label_noise: float = 0.0,
    imbalance: float | None = None,
    seed: int = 0,
    cache_dir: PathLike | None = None,
    streaming: bool = False,
) -> Data:
    """Load a task: from the Hub by name, from a folder of sets (`dir`), or from own files (`train_file`, ...).

    Without a development set one is made from the training rows: `validation_share` of them, each class in
    proportion, by `seed`; with `select_on_train` also where there is one, and then no split but `train` is read.
    `limit` cuts every split; `few_shot` (rows a class), `label_noise` (a share) and
    `imbalance` (smallest to largest class) change the training rows only.

    Args:
        task: A named task, or a `Task`.
        dir: A folder of sets on this machine; without it a named task comes from the Hub.
        train_file: Own rows: CSV, TSV, Excel, JSON, JSONL, Parquet or CoNLL; .gz too.
        validation_file: An own development set.
        test_file: An own test set.
        text_column: The column of the text, or two; inferred if there is no doubt.
        label_column: The column of the label.
        labels: Label names in the order of the class numbers.
        head: The type of the labels; inferred if omitted.
        splits: Other names of the splits of a set: {"validation": "dev"}.
        delimiter: Of a table; inferred if omitted.
        encoding: Of a file that is not UTF-8.
        quoting: Whether quotes enclose a cell.
        label_separator: Stands between several labels of a row.
        tag_column: The column of the tags in a CoNLL file.
        max_line: Bytes of a line; a longer one is taken for a broken file.
        on_bad: Rows that cannot be used: "error" stops, "skip" leaves them out and counts them.
        validation_share: The share of the training rows that is held out.
        select_on_train: Hold it out in any case, and read no other split.
        limit: At most so many rows of every split.
        few_shot: So many training rows a class.
        label_noise: Share of training labels changed at random.
        imbalance: Smallest to largest class of the training rows.
        seed: Of everything that draws rows.
        cache_dir: Where prepared data is kept.
        streaming: Read rows as they are needed.

    Returns:
        The splits with the task and a report on the rows.

    Raises:
        DataError: An unknown task, or rows that cannot be used, with file and line.

    Examples:
        >>> from toughen.demo import sample
        >>> data = toughen.tasks.load(train_file=sample(folder)[1])
        >>> data.task.labels
        ('negative', 'positive')
    """
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    wanted = ("train",) if select_on_train else SPLITS
    files = {split: Path(file) for split, file in files.items() if file is not None and split in wanted}
    form = FileFormat(delimiter, encoding, quoting, label_separator, tag_column, max_line)
    if head == "tokens" or (task is not None and task_named(task).head == "tokens"):
        form = replace(form, conll=True)
    if files and dir is not None:
        raise DataError("give either dir= (a folder of sets) or train_file=, not both.")
    if task is not None:
        reading = {"delimiter": delimiter, "encoding": encoding, "quoting": quoting, "label_separator": label_separator}
        given = {"text_column": ", ".join(_columns(text_column)) or None, "label_column": label_column, **reading}
        _check_named(task_named(task), labels, head, {} if files or dir is not None else given)
    if files:
        named, sources, doubts = _own_sources(task, files, form, _columns(text_column), label_column, labels, head)
        data = _read(Data(named, notes=doubts, doubts=doubts), sources, on_bad, cache_dir, streaming)
    elif task is None:
        raise DataError("nothing to load: give the name of a task, or train_file= for your own data.")
    elif dir is not None:
        named = task_named(task)
        paths, notes = find_splits(Path(dir), named, splits)
        columns = _named_columns(named, _columns(text_column), label_column)
        sources = {
            split: FileSource(path, named, split, form, _parallel_columns(named, path) or columns, public=True)
            for split, path in paths.items()
            if split in wanted
        }
        data = _read(Data(named, notes=tuple(notes)), sources, on_bad, cache_dir, streaming)
    else:
        named = task_named(task)
        tables: dict[str, Any] = {
            split: hub_split(named, split, streaming) for split in named.splits if split in wanted
        }
        notes = tuple(note for _, left_out in tables.values() for note in left_out)
        data = replace(Data(named, notes=notes), **{split: table for split, (table, _) in tables.items()})
    data = _with_validation(data, validation_share, seed)
    return _varied(data, limit, few_shot, label_noise, imbalance, seed)


def _columns(text_column: str | Sequence[str] | None) -> tuple[str, ...]:
    columns = (text_column,) if isinstance(text_column, str) else tuple(text_column or ())
    if len(columns) > 2:
        raise DataError(f"text_column names {len(columns)} columns; a model reads one text or a pair.")
    return columns


def _parallel_columns(task: Task, path: Path) -> dict[str, str]:
    """Return column of the task -> column of a set with a file for each."""
    texts = {column: f"input{number}" for number, column in enumerate(task.columns)}
    return {**texts, "label": "label"} if parallel_files(path) else {}


def _named_columns(task: Task, columns: Sequence[str], label: str | None) -> dict[str, str]:
    return {**dict(zip(task.columns, columns, strict=False)), **({"label": label} if label else {})}


def _check_named(task: Task, labels: Sequence[str] | None, head: Head | None, unused: Mapping[str, Any]) -> None:
    """Refuse what a named task would ignore: labels and a head of its own, and how to read files if there are none."""
    own = {"labels": (labels, list(task.labels)), "head": (head, task.head)}
    for name, (given, known) in own.items():
        if given is not None and (list(given) if name == "labels" else given) != known:
            raise DataError(f"{name}={given!r} is for own files; {task.name!r} has {known!r}", _LEAVE_OUT)
    for name, given in unused.items():
        if given is not None:
            raise DataError(f"{name}={given!r} is for files, and {task.name!r} comes from the Hub", _LEAVE_OUT)


_LEAVE_OUT = Option("train_file", "; leave it out, or give your files with train_file=", otherwise="; leave it out")


def _own_sources(
    name: str | Task | None,
    files: Mapping[str, Path],
    form: FileFormat,
    columns: tuple[str, ...],
    label: str | None,
    labels: Sequence[str] | None,
    head: Head | None,
) -> tuple[Task, dict[str, FileSource], tuple[Message, ...]]:
    """Return the task of own files, how to read each, and words that may be no label."""
    for path in files.values():
        check_file(path)
    missing: list[str] = []
    if name is None:
        first = next(files[split] for split in SPLITS if split in files)
        task, named = infer_task(first, form, columns, label, labels, head)
        missing = [label for label in task.labels if is_missing(label)] if labels is None else []
    else:
        task = task_named(name)
        named = _named_columns(task, columns, label)
    names = Option("labels", "give labels=[...] (--data.labels)", otherwise="leave its rows out")
    doubts = (Message(f"{label!r} is a class; if it means that there is no label, ", names) for label in missing)
    sources = {split: FileSource(path, task, split, form, named) for split, path in files.items()}
    return task, sources, tuple(doubts)


def _read(
    data: Data, sources: Mapping[str, FileSource], on_bad: OnBad, cache_dir: PathLike | None, streaming: bool
) -> Data:
    """Return the data with the rows of the sources, and with notes on how they were read."""
    splits: dict[str, Any] = {}
    notes: list[str] = []
    doubts: list[Message] = []
    hot = all_multi_hot(sources.values()) if data.task.head == "multilabel" else None
    for split, source in sources.items():
        notes.append(f"{split}: {describe(source.path, source.form)}")
        if is_conll(source.path, source.form) and (tags := tag_scheme(source.path, source.form)) != "IOB2":
            notes.append(f"{split}: {tags} tags were read as IOB2")
        source = replace(source, on_bad=on_bad, multi_hot=hot)
        if streaming:
            splits[split] = streamed(source)
            continue
        splits[split], skipped = stored(source, cache_dir)
        lost = [
            Message(f"{split}: {count_of(count, 'row')} left out ({kind})") for kind, count in sorted(skipped.items())
        ]
        notes, doubts = notes + lost, doubts + lost
        if not len(splits[split]):
            raise DataError(f"{source.path} has no usable row; {lost[-1] if lost else 'give another file'}.")
    return replace(data, notes=(*data.notes, *notes), doubts=(*data.doubts, *doubts), **splits)


def _with_validation(data: Data, share: float, seed: int) -> Data:
    """Return the data with a development set, made from the training rows when there is none."""
    if data.train is None or data.validation is not None:
        return data
    if not hasattr(data.train, "__len__"):
        note = "no development set: a stream cannot be split; give validation_file="
        return replace(data, notes=(*data.notes, note))
    train, validation = subsample.hold_out(data.train, data.task, share, seed)
    note = f"validation: made from {len(validation):,} of {len(data.train):,} training rows (seed {seed})"
    return replace(data, train=train, validation=validation, notes=(*data.notes, note))


def _varied(
    data: Data, limit: int | None, few_shot: int | None, noise: float, imbalance: float | None, seed: int
) -> Data:
    train, notes = data.train, list(data.notes)
    if train is not None and imbalance is not None:
        train = subsample.imbalance(train, imbalance, seed)
        notes.append(f"train: class sizes made uneven, smallest to largest {imbalance:g} (seed {seed})")
    if train is not None and few_shot is not None:
        train = subsample.few_shot(train, few_shot, seed)
        notes.append(f"train: {few_shot} rows a class (seed {seed})")
    data = replace(data, train=train)
    if limit is not None:
        data = data.each(lambda _, split: subsample.limit(split, limit, seed))
        notes.append(f"every split cut to at most {limit:,} rows (seed {seed})")
    if data.train is not None and noise:
        data = replace(data, train=subsample.label_noise(data.train, noise, seed))
        notes.append(f"train: {noise:.1%} of the labels changed at random (seed {seed})")
    return replace(data, notes=tuple(notes))
