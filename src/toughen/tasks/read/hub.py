"""Sets from the Hugging Face Hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import require
from ..spec import DataError, Task
from .arrow import features
from .rows import BadRow, FileSource, encoder

if TYPE_CHECKING:
    from datasets import Dataset


class Unreachable(DataError):
    """A set that the Hub does not give here; the message says how to bring it, `fetching` what where that failed."""

    def __init__(self, task: Task, where: str, problem: Exception):
        from huggingface_hub import constants

        cause = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else type(problem).__name__
        start = f"{where} cannot be reached on the Hub ({cause});"
        unset = "unset it, or " if constants.HF_HUB_OFFLINE else ""
        self.fetching = f"{start} {unset}fetch {task.name} on a machine with network and copy the folder."
        super().__init__(
            f"{start} {unset}on a machine with network run: toughen tasks fetch {task.name} --to FOLDER, or "
            f'toughen.tasks.fetch(["{task.name}"], to=FOLDER); then give --data.dir FOLDER (in Python: dir).'
        )


def hub_split(task: Task, split: str, streaming: bool = False) -> "tuple[Dataset, list[str]]":
    """One split of a task, by the Hub's name, with the task's columns; and notes on rows left out."""
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
        raise Unreachable(task, task.hub.id, problem) from problem
    table = as_task(raw, task, split)
    lost = 0 if streaming else len(raw) - len(table)
    return table, [f"{split}: {lost:,} rows without a label left out"] if lost else []


def as_task(raw: Any, task: Task, split: str) -> Any:
    """A `datasets` table with the columns and class numbers of the task."""
    if raw.features is None:
        raw = raw._resolve_features()
    wanted = features(task)
    kept = [name for name in task.extra_columns if name in raw.column_names]
    if all(raw.features.get(column) == feature for column, feature in wanted.items()):
        return _labelled(raw.select_columns([*wanted, *kept]), task, split)
    wanted = features(task, kept)
    mapped = raw.map(
        _Row(task, _class_names(raw.features, task)),
        with_indices=True,
        remove_columns=[name for name in raw.column_names if name not in wanted],
        features=wanted,
    )
    return _labelled(mapped, task, split)


class _Row:
    """Turns one row of the Hub into one of the task; picklable, so that `datasets` can cache its work."""

    def __init__(self, task: Task, names: Mapping[str, list[str]]):
        self.task, self.names = task, names
        self.where = Path(task.hub.id if task.hub else task.name)

    def __call__(self, fields: dict[str, Any], index: int) -> dict[str, Any]:
        named = {key: _words(value, self.names[key]) if key in self.names else value for key, value in fields.items()}
        try:
            return self._encode(named)(named)
        except BadRow as bad:
            raise DataError(f"{self.where}, row {index + 1}: {bad}", *bad.options) from None

    def _encode(self, sample: Mapping[str, Any]) -> Any:
        # Made on the first row and left out of the pickle. As "test", because a row without a label stays
        # -1 here and is left out afterwards.
        if "made" not in self.__dict__:
            source = FileSource(self.where, self.task, "test", public=True)
            self.__dict__["made"] = encoder(self.task, source, sample, optional=True)
        return self.__dict__["made"]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "made"}


def _words(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [names[number] for number in value]  # pyright: ignore[reportUnknownVariableType]
    return names[value] if isinstance(value, int) and value >= 0 else None


def _class_names(found: Mapping[str, Any], task: Task) -> dict[str, list[str]]:
    """Columns of class numbers whose names are words of this task: read by name, not by position."""
    out: dict[str, list[str]] = {}
    known = {label.lower() for label in task.labels} | set(task.label_aliases)
    for column, feature in found.items():
        inner = getattr(feature, "feature", feature)
        names = getattr(inner, "names", None)
        if names and {name.lower() for name in names} <= known:
            out[column] = list(names)
    return out


def _labelled(table: Any, task: Task, split: str) -> Any:
    """Rows whose label is withheld are kept in a test set only; those that nobody could label are not."""
    if (split == "test" and not task.has_unlabelled_rows) or task.head in ("regression", "multilabel"):
        return table
    return table.filter(_has_label, input_columns=["label"])


def _has_label(label: Any) -> bool:
    return (min(label) if isinstance(label, list) else label) >= 0
