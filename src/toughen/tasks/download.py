"""Sets from the Hub saved to disk, for machines without network."""

import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from ..errors import count_of
from ..internal.atomic import write_bytes
from .catalog import GLUE, SPELLED
from .read.hub import hub_split
from .registry import task as task_named
from .spec import DataError, Task

Layout = Literal["jsonl", "glue"]
Download = Callable[[Task, str], Iterable[Mapping[str, Any]]]

# The header lines of the original files.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "mrpc": ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    "qqp": ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
    "stsb": (
        *("index", "genre", "filename", "year", "old_index", "source1", "source2"),
        *("sentence1", "sentence2", "score"),
    ),
    "sst2": ("sentence", "label"),
    "qnli": ("index", "question", "sentence", "label"),
    **dict.fromkeys(("mnli", "mnli-mm", "ax"), ("index", "sentence1", "sentence2", "gold_label")),
    **dict.fromkeys(("rte", "wnli"), ("index", "sentence1", "sentence2", "label")),
}


def fetch(
    names: Sequence[str],
    to: "str | os.PathLike[str]",
    layout: Layout = "jsonl",
    *,
    download: Download | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Save sets under a folder as JSON lines or in the original GLUE layout; returns the manifest.

    Each file is written whole and its checksum kept in `manifest.json`; a second call skips files that are
    there and intact. "glue" stands for its eleven sets.

    Args:
        names: Names of tasks, or "glue".
        to: The folder.
        layout: JSON lines, or GLUE's own tables.
        download: What reads a split, in place of the Hub.
        tell: A function that gets a line for every file.

    Returns:
        The manifest: the files with their checksums.

    Raises:
        DataError: An unknown task, or one that the Hub does not have.

    Examples:
        >>> manifest = toughen.tasks.fetch(["rte", "sst2"], "sets")  # doctest: +SKIP
    """
    if layout not in ("jsonl", "glue"):
        raise ValueError(f"layout {layout!r} is not known; use 'jsonl' or 'glue'.")
    folder = Path(to)
    tasks = [task_named(name) for group in names for name in (GLUE if group.lower() == "glue" else (group,))]
    if odd := [task.name for task in tasks if layout == "glue" and task.name not in GLUE]:
        raise DataError(f"{', '.join(odd)} is no GLUE set and has no original GLUE layout; use layout='jsonl'.")
    manifest = read_manifest(folder)
    for task in tasks:
        for split in task.splits:
            name = file_name(task, split, layout)
            if _intact(folder / name, manifest.get(name)):
                continue
            rows = list((download or _download)(task, split))
            content = _glue_file(task, split, rows) if layout == "glue" else _json_lines(task, rows)
            write_bytes(folder / name, content)
            manifest[name] = {"sha256": _digest(content), "rows": len(rows), "bytes": len(content)}
            write_bytes(folder / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())
            if tell:
                tell(f"{name}: {count_of(len(rows), 'row')}")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """What was fetched before: file -> checksum, rows, bytes."""
    file = folder / "manifest.json"
    try:
        return json.loads(file.read_text()) if file.exists() else {}
    except json.JSONDecodeError:
        raise DataError(f"{file} is not JSON; remove it, and the files are fetched again.") from None


def verify(folder: "str | os.PathLike[str]") -> list[str]:
    """Files of a fetched folder that are missing or altered.

    Args:
        folder: What `fetch` wrote to.

    Returns:
        Their names; empty if nothing is wrong.

    Raises:
        DataError: No manifest in the folder.

    Examples:
        >>> broken = toughen.tasks.verify("sets")  # doctest: +SKIP
    """
    manifest = read_manifest(Path(folder))
    if not manifest:
        raise DataError(f"{folder} has no manifest.json: nothing was fetched there; see toughen tasks fetch.")
    return [name for name, entry in manifest.items() if not _intact(Path(folder) / name, entry)]


def file_name(task: Task, split: str, layout: Layout) -> str:
    """Where a split goes, so that `load(..., dir=)` finds it."""
    if layout == "jsonl":
        return f"{(task.folder or task.name).lower()}/{_stem(task, split)}.jsonl.gz"
    if task.name == "ax":
        return "diagnostic/diagnostic.tsv"
    stem = {"train": "train", "validation": "dev", "test": "test"}[split]
    half = {"mnli": "_matched", "mnli-mm": "_mismatched"}.get(task.name, "") if split != "train" else ""
    return f"{task.folder or task.title}/{stem}{half}.tsv"


def _stem(task: Task, split: str) -> str:
    # AdvGLUE's sets share a folder and the split's name: the file is named after the task there.
    names = task.splits[split]
    return names[1] if task.folder == "advglue" else names[0]


def _download(task: Task, split: str) -> Iterable[Mapping[str, Any]]:
    try:
        return cast(Iterable[Mapping[str, Any]], hub_split(task, split)[0])
    except DataError as problem:  # its remedy may be the very command that failed
        raise problem.for_caller(()) from problem


def _json_lines(task: Task, rows: Iterable[Mapping[str, Any]]) -> bytes:
    out = io.BytesIO()
    # No time of day in the gzip header: the same rows give the same checksum.
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
        for row in rows:
            plain = dict(row)
            if task.head == "tokens":
                plain["label"] = [task.labels[number] if number >= 0 else -1 for number in row["label"]]
            file.write((json.dumps(plain, ensure_ascii=False) + "\n").encode())
    return out.getvalue()


def _glue_file(task: Task, split: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    header = _HEADERS.get(task.name, task.headerless)
    known = {name: column for column in (*task.columns, "label") for name in (column, *task.synonyms.get(column, ()))}
    columns = [known.get(name, "") for name in header]  # what a task does not know is written empty
    if split == "test":
        # The original test files have an index, no label and, for CoLA and SST-2, the sentence alone.
        texts = [column for column in columns if column in task.columns]
        lines = ["\t".join(("index", *(name for name in header if known.get(name) in texts)))]
        lines += ["\t".join((str(n), *(_cell(row[column]) for column in texts))) for n, row in enumerate(rows)]
    else:
        lines = ["\t".join(_HEADERS[task.name])] if task.name in _HEADERS else []
        for number, row in enumerate(rows):
            cells = [_cell(_written(task, row, column)) if column else "" for column in columns]
            lines.append("\t".join([cells[0] or ("" if columns[0] else str(number)), *cells[1:]]))
    return ("\n".join(lines) + "\n").encode()


def _written(task: Task, row: Mapping[str, Any], column: str) -> str:
    if column != "label":
        return row[column]
    return task.labels[row["label"]] if task.name in SPELLED else str(row["label"])


def _cell(text: str) -> str:
    """A text on one line and in one cell: the layout has no way to write a tab or a line break."""
    return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _intact(file: Path, entry: Mapping[str, Any] | None) -> bool:
    return bool(entry) and file.is_file() and _digest(file.read_bytes()) == entry["sha256"]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
