"""Load data by the name of a task or from the user's own files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import subsample
from .infer import infer_task
from .read.arrow import stored, streamed
from .read.files import FileFormat, check_file, describe, is_conll, tag_scheme
from .read.folder import find_splits
from .read.hub import hub_split
from .read.rows import FileSource, OnBad, all_multi_hot, is_missing
from .registry import task as task_named
from .spec import SPLITS, Data, DataError, Head, Message, Option, Task

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class _ReadOptions:
    """How files are written, what becomes of bad rows, where Arrow files go, and whether rows stream instead."""

    form: FileFormat
    on_bad: OnBad
    cache_dir: PathLike | None
    streaming: bool


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
    proportion, by `seed`. `limit` cuts every split; `few_shot` (rows a class), `label_noise` (a share) and
    `imbalance` (smallest to largest class) change the training rows only.
    """
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    files = {split: Path(file) for split, file in files.items() if file is not None}
    form = FileFormat(delimiter, encoding, quoting, label_separator, tag_column, max_line)
    if head == "tokens" or (task is not None and task_named(task).head == "tokens"):
        form = replace(form, conll=True)
    options = _ReadOptions(form, on_bad, cache_dir, streaming)
    if files:
        if dir is not None:
            raise DataError("give either dir= (a folder of sets) or train_file=, not both.")
        data = _from_files(task, files, options, _columns(text_column), label_column, labels, head)
    elif task is None:
        raise DataError("nothing to load: give the name of a task, or train_file= for your own data.")
    elif dir is not None:
        data = _from_folder(task_named(task), Path(dir), splits, options)
    else:
        data = _from_hub(task_named(task), streaming)
    data = _with_validation(data, validation_share, seed)
    return _varied(data, limit, few_shot, label_noise, imbalance, seed)


def _columns(text_column: str | Sequence[str] | None) -> tuple[str, ...]:
    columns = (text_column,) if isinstance(text_column, str) else tuple(text_column or ())
    if len(columns) > 2:
        raise DataError(f"text_column names {len(columns)} columns; a model reads one text or a pair.")
    return columns


def _from_files(
    name: str | Task | None,
    files: Mapping[str, Path],
    options: _ReadOptions,
    columns: tuple[str, ...],
    label: str | None,
    labels: Sequence[str] | None,
    head: Head | None,
) -> Data:
    for path in files.values():
        check_file(path)
    if name is None:
        first = next(files[split] for split in SPLITS if split in files)
        task, named = infer_task(first, options.form, columns, label, labels, head)
    else:
        task = task_named(name)
        named = dict(zip(task.columns, columns, strict=False))
        named.update({"label": label} if label else {})
    sources = {
        split: FileSource(path, task, split, options.form, named, options.on_bad) for split, path in files.items()
    }
    doubtful = [label for label in task.labels if is_missing(label)] if labels is None and name is None else []
    names = Option("labels", "give labels=[...] (--data.labels)", otherwise="leave its rows out")
    doubts = [Message(f"{label!r} is a class; if it means that there is no label, ", names) for label in doubtful]
    return _read(task, sources, [], doubts, options)


def _from_folder(task: Task, folder: Path, splits: Mapping[str, str] | None, options: _ReadOptions) -> Data:
    files, notes = find_splits(folder, task, splits)
    form, on_bad = options.form, options.on_bad
    sources = {split: FileSource(path, task, split, form, {}, on_bad, public=True) for split, path in files.items()}
    return _read(task, sources, notes, [], options)


def _read(
    task: Task,
    sources: Mapping[str, FileSource],
    notes: Sequence[str],
    doubts: Sequence[Message],
    options: _ReadOptions,
) -> Data:
    splits: dict[str, Any] = {}
    noted, doubts = [*notes, *doubts], list(doubts)
    if task.head == "multilabel":
        hot = all_multi_hot(sources.values())
        sources = {split: replace(source, multi_hot=hot) for split, source in sources.items()}
    for split, source in sources.items():
        noted.append(f"{split}: {describe(source.path, source.form)}")
        if is_conll(source.path, source.form) and (tags := tag_scheme(source.path, source.form)) != "IOB2":
            noted.append(f"{split}: {tags} tags were read as IOB2")
        if options.streaming:
            splits[split] = streamed(source)
            continue
        splits[split], skipped = stored(source, options.cache_dir)
        lost = [Message(f"{split}: {count:,} rows left out ({kind})") for kind, count in sorted(skipped.items())]
        noted, doubts = noted + lost, doubts + lost
        if not len(splits[split]):
            raise DataError(f"{source.path} has no usable row; {noted[-1] if skipped else 'give another file'}.")
    return Data(task, notes=tuple(noted), doubts=tuple(doubts), **splits)


def _from_hub(task: Task, streaming: bool) -> Data:
    splits: dict[str, Any] = {}
    notes: list[str] = []
    for split in task.splits:
        splits[split], left_out = hub_split(task, split, streaming)
        notes += left_out
    return Data(task, notes=tuple(notes), **splits)


def _with_validation(data: Data, share: float, seed: int) -> Data:
    """The data with a development set, made from the training rows when there is none."""
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
