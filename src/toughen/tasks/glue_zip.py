"""The file GLUE's server takes: eleven tables in a zip, checked before they are written."""

import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..internal.atomic import atomic_path
from .catalog import GLUE, GLUE_TEST_ROWS, SPELLED
from .registry import task as task_named
from .spec import DataError, Task


@dataclass(frozen=True)
class Submission:
    """What was written, and what is missing."""

    path: Path
    files: tuple[str, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """One line."""
        lack = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        return f"{self.path}: {len(self.files)} of {len(GLUE)} files{lack}"


def submission(
    predictions: Mapping[str, Sequence[Any]], out: "str | os.PathLike[str]", *, partial: bool = False
) -> Submission:
    """Write the zip of test predictions by task: class numbers or label words, floats for STS-B.

    All faults are named at once and nothing is written; `partial=True` allows missing tasks.

    Args:
        predictions: The test predictions of each task.
        out: The zip; must be new.
        partial: Allow missing tasks.

    Returns:
        What was written.

    Raises:
        DataError: Missing tasks, wrong numbers of rows or unknown labels.

    Examples:
        >>> done = toughen.tasks.submission({"RTE": answers}, "glue.zip", partial=True)  # doctest: +SKIP
    """
    given = {task_named(name).name: values for name, values in predictions.items()}
    faults = [f"{name} is no GLUE task" for name in given if name not in GLUE]
    missing = tuple(file_name(name) for name in GLUE if name not in given)
    if missing and not partial:
        faults.append(f"missing: {', '.join(missing)} (or give partial=True)")
    tables: dict[str, str] = {}
    for name in GLUE:
        if name in given:
            try:
                tables[file_name(name)] = table(task_named(name), given[name])
            except DataError as fault:
                faults.append(str(fault).removesuffix("."))
    if faults:
        raise DataError("; ".join(faults) + ".")
    path = Path(out)
    _write(path, tables)
    return Submission(path, tuple(tables), missing)


def file_name(name: str) -> str:
    """The table's name in the zip."""
    return f"{'MNLI-m' if name == 'mnli' else task_named(name).title}.tsv"


def table(task: Task, predictions: Sequence[Any]) -> str:
    """The server's table of one task."""
    if len(predictions) != GLUE_TEST_ROWS[task.name]:
        raise DataError(
            f"{task.title} has {len(predictions):,} predictions, its test set {GLUE_TEST_ROWS[task.name]:,} rows"
        )
    lines = ["index\tprediction"]
    lines += [f"{row}\t{write_prediction(task, row, value)}" for row, value in enumerate(predictions)]
    return "\n".join(lines) + "\n"


def write_prediction(task: Task, row: int, value: Any) -> str:
    """Return a prediction as the server wants it: a class number, for some tasks a word, for STS-B an amount."""
    if task.head == "regression":
        number = float(value)
        if not math.isfinite(number):
            raise DataError(f"{task.title}, row {row}: {value!r} is not a number")
        # The scale of the set is 0 to 5; a regression head can leave it.
        return f"{min(max(number, 0.0), 5.0):.3f}"
    if isinstance(value, str) and value in task.labels:
        value = task.labels.index(value)
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number < len(task.labels) or number != float(value):
        raise DataError(f"{task.title}, row {row}: {value!r} is none of {', '.join(task.labels)}")
    return task.labels[number] if task.name in SPELLED else str(number)


def _write(path: Path, tables: Mapping[str, str]) -> None:
    with atomic_path(path) as half, zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in tables.items():
            # A fixed date: the same predictions give the same file.
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
