"""The tasks by name."""

import difflib
import re

from .catalog import BUILT_IN
from .spec import DataError, Option, Task

_TASKS: dict[str, Task] = {}
_NAMES: dict[str, str] = {}


def plain(name: str) -> str:
    """A name without case and punctuation, so that `SST-2` is `sst2`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def register(task: Task) -> Task:
    """Add a task to the registry; a name may be taken once.

    Args:
        task: The task.

    Returns:
        The same task.

    Raises:
        ValueError: The name is taken.

    Examples:
        >>> from dataclasses import replace
        >>> mine = replace(toughen.tasks.task("rte"), name="my-rte", title="My RTE")
        >>> mine = toughen.tasks.register(mine)  # doctest: +SKIP
    """
    spellings = {plain(name): name for name in (task.name, task.title, *task.aliases)}
    for short, name in spellings.items():
        if _NAMES.get(short, task.name) != task.name:
            raise ValueError(f"the task name {name!r} already belongs to {_NAMES[short]!r}; choose another.")
    _TASKS[task.name] = task
    _NAMES.update(dict.fromkeys(spellings, task.name))
    return task


def available() -> list[str]:
    """All task names, in order.

    Returns:
        The names, sorted.

    Examples:
        >>> "rte" in toughen.tasks.available()
        True
    """
    return sorted(_TASKS)


def task(name: "str | Task") -> Task:
    """Return the task of that name; case and punctuation do not matter.

    Args:
        name: A name, or a task.

    Returns:
        The task.

    Raises:
        DataError: No task has this name.

    Examples:
        >>> toughen.tasks.task("SST-2").metrics
        ('accuracy',)
    """
    if isinstance(name, Task):
        return name
    short = plain(name)
    if short in _NAMES:
        return _TASKS[_NAMES[short]]
    near = dict.fromkeys(_NAMES[match] for match in difflib.get_close_matches(short, _NAMES, n=5, cutoff=0.5))
    hint = f"the nearest: {', '.join(list(near)[:3])}" if near else f"there are: {', '.join(available())}"
    own = Option(
        "train_file",
        " For your own files give train_file=... and no task.",
        otherwise=" For a file of your own give file= (--file).",
    )
    raise DataError(f"no task {name!r}; {hint}.", own)


for _task in BUILT_IN:
    register(_task)
