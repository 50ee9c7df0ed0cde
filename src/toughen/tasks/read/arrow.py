"""Store rows as a memory-mapped Arrow file, written once and read again."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import require
from ...internal.atomic import atomic_path, write_bytes
from ..spec import Task
from .files import parallel_files
from .rows import FileSource

if TYPE_CHECKING:
    from datasets import Dataset, Features

_VERSION = 3
_BATCH = 1000


def features(task: Task, sample: Collection[str] = ()) -> "Features":
    """Return the columns of a task with their types, and of those worth keeping the ones in the sample."""
    datasets = require("datasets", "tasks")
    text = datasets.Value("string")
    names = list(task.labels)
    columns: dict[str, Any] = {
        column: datasets.List(text) if column in ("tokens", "choices") else text for column in task.columns
    }
    if task.head == "regression":
        columns["label"] = datasets.Value("float64")
    elif task.head in ("tokens", "multilabel"):
        columns["label"] = datasets.List(datasets.ClassLabel(names=names))
    else:
        columns["label"] = datasets.ClassLabel(names=names)
    columns.update({name: text for name in task.extra_columns if name in sample})
    return datasets.Features(columns)


def cache_folder(cache_dir: "str | os.PathLike[str] | None") -> Path:
    """Return the folder for Arrow files: the user's choice, or beside the files of `datasets`."""
    if cache_dir is not None:
        return Path(cache_dir)
    return Path(require("datasets", "tasks").config.HF_DATASETS_CACHE) / "toughen"


def stored(source: FileSource, cache_dir: "str | os.PathLike[str] | None") -> "tuple[Dataset, Counter[str]]":
    """Return the file's rows as memory-mapped Arrow, with the counts of rows that were skipped."""
    file = cache_folder(cache_dir) / f"{_key(source)}.arrow"
    notes = file.with_suffix(".json")
    if not (file.exists() and notes.exists()):
        skipped = Counter[str]()
        rows = source.rows(skipped)
        first = next(rows, None)
        write_arrow(chain((first,), rows) if first else (), features(source.task, first or ()), file)
        write_bytes(notes, json.dumps(skipped).encode())
    return require("datasets", "tasks").Dataset.from_file(str(file)), Counter(json.loads(notes.read_text()))


def streamed(source: FileSource) -> Any:
    """Return the file's rows as they are read, for sets that should not be copied to disk."""
    columns = features(source.task, next(source.rows(), ()))
    return require("datasets", "tasks").IterableDataset.from_generator(source.rows, features=columns)


def write_arrow(rows: Iterable[Mapping[str, Any]], columns: "Features", file: Path) -> None:
    """Write rows in batches; the file is complete or absent."""
    arrow = require("pyarrow", "tasks")
    schema = columns.arrow_schema
    source = iter(rows)
    with atomic_path(file) as half, arrow.OSFile(str(half), "wb") as sink, arrow.ipc.new_stream(sink, schema) as writer:
        while batch := list(islice(source, _BATCH)):
            arrays = [arrow.array([row.get(name) for row in batch], type=schema.field(name).type) for name in columns]
            writer.write_batch(arrow.record_batch(arrays, schema=schema))


def _key(source: FileSource) -> str:
    """Return a name that changes with the file, the task and the way of reading."""
    state = source.path.stat()
    described = asdict(source)
    described["task"].pop("unpack")
    others = [(file.stat().st_size, file.stat().st_mtime_ns) for file in parallel_files(source.path).values()]
    parts = (_VERSION, str(source.path.resolve()), state.st_size, state.st_mtime_ns, described, *others)
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
