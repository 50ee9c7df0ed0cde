"""Find the splits of a task in a folder: the original GLUE layout, the authors' own or JSON lines."""

from collections.abc import Mapping
from pathlib import Path

from ..registry import plain
from ..spec import DataError, Option, Task
from .files import ENDINGS, suffix


def find_splits(folder: Path, task: Task, named: Mapping[str, str] | None = None) -> tuple[dict[str, Path], list[str]]:
    """Return split -> file for a task, and notes on files that only nearly have the expected name."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; give the folder that holds the sets as dir=",
            Option("train_file", ", or a file as train_file="),
        )
    inside = _own_folder(folder, task)
    files: dict[str, Path] = {}
    notes: list[str] = []
    for split, names in {**task.splits, **{split: (name,) for split, name in (named or {}).items()}}.items():
        file = next((path for name in names if (path := _file(inside, name))), None)
        if file is None and named and split in named:
            raise DataError(f"{inside} has no file {named[split]!r}; it has {_listing(inside)}.")
        if file is None and (near := _nearly(inside, names)):
            notes.append(f"{split}: {near.name} stands for the missing {names[0]!r}; it may be a part of the set")
            file = near
        if file is not None:
            files[split] = file
    if not files:
        wanted = ", ".join(names[0] for names in task.splits.values())
        raise DataError(f"{inside} has none of the splits {wanted} of {task.name!r}; it has {_listing(inside)}.")
    return files, notes


def check_apart(folder: Path, task: Task, own: Task) -> None:
    """Refuse a folder whose file of `own` would pass for another set: of one set alone, it has no folder for more."""
    try:
        theirs, ours = (set(find_splits(folder, each)[0].values()) for each in (task, own))
    except DataError:
        return  # nothing of one of them: loading says so where it matters
    if task.name != own.name and (same := sorted(theirs & ours)):
        raise DataError(
            f"{folder} has no folder of {task.name!r}, and {same[0].name} there is of {own.name!r} itself; give the "
            "folder that holds the sets as dir= (--dir)."
        )


def _own_folder(folder: Path, task: Task) -> Path:
    """Return the task's folder inside a folder of sets, or the folder itself."""
    wanted = [plain(name) for name in (task.folder, task.title, task.name, *task.aliases) if name]
    inside = {plain(path.name): path for path in sorted(folder.iterdir()) if path.is_dir()}
    return next((inside[name] for name in wanted if name in inside), folder)


def _file(folder: Path, name: str) -> Path | None:
    for path in (folder / name, *(folder / f"{name}{ending}" for ending in ENDINGS)):
        for candidate in (path, path.with_name(path.name + ".gz")):
            if candidate.is_file():
                return candidate
    return None


def _nearly(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the one readable file whose name begins with the split's name, such as train_subset.jsonl.gz."""
    for name in names:
        near = [path for path in sorted(folder.glob(f"{name}*")) if path.is_file() and suffix(path) in ENDINGS]
        if len(near) == 1:
            return near[0]
    return None


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) + (", ..." if len(names) > 8 else "")) or "nothing"
