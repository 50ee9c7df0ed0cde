"""Read sets from the Hugging Face Hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import count_of, require
from ..spec import DataError, Option, Task
from .arrow import features
from .rows import BadRow, FileSource, encoder

if TYPE_CHECKING:
    from datasets import Dataset


def _unreachable(task: Task, where: str, problem: Exception) -> DataError:
    from huggingface_hub import constants

    cause = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else type(problem).__name__
    unset = " unset it, or" if constants.HF_HUB_OFFLINE else ""
    load_folder = Option(
        "dir",
        f" on a machine with network run: toughen tasks fetch {task.name} --to FOLDER, or "
        f'toughen.tasks.fetch(["{task.name}"], to=FOLDER); then give --data.dir FOLDER (in Python: dir)',
        otherwise=f" fetch {task.name} on a machine with network and copy the folder",
    )
    return DataError(f"{where} cannot be reached on the Hub ({cause});{unset}", load_folder)


def hub_split(task: Task, split: str, streaming: bool = False) -> "tuple[Dataset, list[str]]":
    """Return one split of a task with the task's columns, and notes on rows left out."""
    if task.hub is None:
        raise DataError(
            f"{task.title} is not on the Hub ({task.citation}); get the files and give their folder as dir=."
        )
    datasets = require("datasets", "tasks")
    where: dict[str, Any] = {"name": task.hub.config}
    if task.hub.converted:
        where = {"data_dir": task.hub.config, "revision": "refs/convert/parquet"}
    try:
        raw = datasets.load_dataset(task.hub.id, split=task.splits[split][0], streaming=streaming, **where)
    except (ConnectionError, FileNotFoundError, OSError) as problem:
        raise _unreachable(task, task.hub.id, problem) from problem
    table = _as_task(raw, task, split)
    lost = 0 if streaming else len(raw) - len(table)
    return table, [f"{split}: {count_of(lost, 'row')} left out (no label)"] if lost else []


def _as_task(raw: Any, task: Task, split: str) -> Any:
    """Give a `datasets` table the columns and class numbers of the task."""
    if raw.features is None:
        raw = raw._resolve_features()
    wanted = features(task)
    kept = [name for name in task.extra_columns if name in raw.column_names]
    if all(raw.features.get(column) == feature for column, feature in wanted.items()):
        return _labelled(raw.select_columns([*wanted, *kept]), task, split)
    wanted = features(task, kept)
    names = _class_names(raw.features, task)
    # As "test", because a row without a label stays -1 here and is left out afterwards.
    source = FileSource(Path(task.hub.id if task.hub else task.name), task, "test", public=True)
    encode = encoder(task, source, dict.fromkeys(raw.features), optional=True)

    def row(fields: dict[str, Any], index: int) -> dict[str, Any]:
        words = {name: _words(value, names[name]) if name in names else value for name, value in fields.items()}
        try:
            return encode(words)
        except BadRow as bad:
            raise DataError(f"{source.path}, row {index + 1}: {bad.message.problem}", *bad.message.options) from None

    removed = [name for name in raw.column_names if name not in wanted]
    return _labelled(raw.map(row, with_indices=True, remove_columns=removed, features=wanted), task, split)


def _words(value: object, names: list[str]) -> Any:
    if isinstance(value, list):
        return [names[number] for number in value]
    return names[value] if isinstance(value, int) and value >= 0 else None


def _class_names(columns: Mapping[str, Any], task: Task) -> dict[str, list[str]]:
    """Return the columns of class numbers whose names are words of this task: read by name, not by position."""
    out: dict[str, list[str]] = {}
    known = {label.lower() for label in task.labels} | set(task.label_aliases)
    for column, feature in columns.items():
        inner = getattr(feature, "feature", feature)
        names = getattr(inner, "names", None)
        if names and {name.lower() for name in names} <= known:
            out[column] = list(names)
    return out


def _labelled(table: Any, task: Task, split: str) -> Any:
    """Keep rows whose label is withheld in a test set only, and rows that nobody could label nowhere."""
    if (split == "test" and not task.has_unlabelled_rows) or task.head in ("regression", "multilabel"):
        return table
    return table.filter(_has_label, input_columns=["label"])


def _has_label(label: Any) -> bool:
    return (min(label) if isinstance(label, list) else label) >= 0
