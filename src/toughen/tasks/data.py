"""A task with its splits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .spec import SPLITS, Message, Task

if TYPE_CHECKING:
    from .hygiene import Hygiene


@dataclass(frozen=True)
class Data:
    """A task and its rows: `datasets.Dataset` splits (or streams), and what was noted while reading them."""

    task: Task
    train: Any = None
    validation: Any = None
    test: Any = None
    notes: tuple[str, ...] = ()
    doubts: tuple[Message, ...] = ()
    """Those of the notes that a person should see unasked: rows left out, words that may be no label."""

    @property
    def splits(self) -> dict[str, Any]:
        """The splits that are there, by name."""
        return {name: split for name in SPLITS if (split := getattr(self, name)) is not None}

    def each(self, change: Callable[[str, Any], Any]) -> "Data":
        """The same data with every split passed through `change(name, split)`."""
        return replace(self, **{name: change(name, split) for name, split in self.splits.items()})

    def report(self, tokenizer: Any = None, max_length: int | None = None, longest: int | None = None) -> "Hygiene":
        """What a person should know before training on this data; print it. `longest`: tokens the model reads."""
        from .hygiene import hygiene

        return hygiene(self, tokenizer, max_length, longest)
