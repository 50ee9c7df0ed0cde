"""What a task is (columns, labels, head, metrics, splits, citation), and the data of one."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DataError as DataError
from ..errors import Message as Message
from ..errors import Option as Option

if TYPE_CHECKING:
    from .data_report import DataReport


Kind = Literal["sentence", "pair", "choices", "tokens"]
Head = Literal["classes", "regression", "multilabel", "tokens", "choices"]

SPLITS = ("train", "validation", "test")
# The Hub's name first; the others are names of files in the wild.
USUAL_SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation", "dev", "valid", "val"),
    "test": ("test",),
}


@contextmanager
def options_of_caller(*known: str) -> Generator[None]:
    """Make data errors name only the options `known`; round a part of a function that calls `load`."""
    try:
        yield
    except DataError as error:
        raise error.for_caller(known) from error


@dataclass(frozen=True)
class Hub:
    """Where a set lives on the Hugging Face Hub.

    Args:
        id: The repository, as owner/name.
        config: The name of its configuration.
        converted: Whether to read the Hub's conversion to Parquet.

    Examples:
        >>> toughen.tasks.task("rte").hub.config
        'rte'
    """

    id: str
    config: str | None = None
    # Sets that were loading scripts are only readable in the Hub's own conversion to Parquet.
    converted: bool = False


@dataclass(frozen=True)
class Task:
    """One data set as a problem to learn: a built-in one, or the description of the user's own files.

    Args:
        name: The name to ask for it by.
        title: The name to show.
        kind: What a row is: a sentence, a pair, a choice or words.
        head: What is predicted: classes, a regression, several labels, choices or tokens.
        hub: Where it is on the Hugging Face Hub.

    Examples:
        >>> toughen.tasks.task("rte").columns
        ('sentence1', 'sentence2')
    """

    name: str
    title: str
    kind: Kind
    head: Head
    columns: tuple[str, ...]
    """The text columns, in the order in which the tokenizer gets them."""
    labels: tuple[str, ...] = ()
    """Label names in the order of the class numbers; empty for regression."""
    metrics: tuple[str, ...] = ("accuracy",)
    """What is reported; the first one selects the best epoch."""
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(USUAL_SPLITS), hash=False)
    """train, validation, test -> the Hub's split, then other file names tried in a folder."""
    hub: Hub | None = None
    citation: str = ""
    """Paper or page the set comes from."""
    aliases: tuple[str, ...] = ()
    """Other names of the task, and of its folder."""
    folder: str | None = None
    """Folder on disk when it is not named after the task."""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]], hash=False)
    """Column -> names it has in other editions of the set."""
    label_aliases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Other spellings of a label -> the label."""
    extra_columns: tuple[str, ...] = ()
    """Further columns worth keeping when they are there."""
    headerless: tuple[str, ...] = ()
    """Column names of an edition without a header line."""
    positional: bool = True
    """Whether class numbers are accepted where labels are words."""
    tests: str | None = None
    """The task whose model this set tests, for evaluation sets."""
    class_map: tuple[int, ...] = ()
    """For each class of the tested task, the class of this set (HANS: three classes onto two)."""
    unpack: Callable[[Any], Iterable[dict[str, Any]]] | None = field(default=None, compare=False)
    """Splits one record of the authors' own JSON into rows."""

    def __post_init__(self) -> None:
        """Refuse descriptions that contradict themselves, where they are written."""
        if not self.metrics:
            raise ValueError(f"task {self.name!r} has no metric; the first one selects the best epoch.")
        if self.head in ("classes", "multilabel", "tokens") and len(self.labels) < 2:
            raise ValueError(f"task {self.name!r} has head {self.head!r} and needs at least two labels.")
        if self.head == "regression" and self.labels:
            raise ValueError(f"task {self.name!r} is a regression and has no label names.")

    @property
    def has_unlabelled_rows(self) -> bool:
        """Whether some rows have no label though the others' are public: its annotators did not agree (SNLI)."""
        return "" in self.label_aliases.values()

    @property
    def is_single_label(self) -> bool:
        """Whether a row has one answer, right or wrong."""
        return self.head in ("classes", "choices")

    @property
    def primary_metric(self) -> str:
        """The metric that selects the best epoch."""
        return self.metrics[0]


@dataclass(frozen=True)
class Data:
    """A task and its rows: `datasets.Dataset` splits (or streams), and what was noted while reading them.

    Args:
        task: The task.
        train: The training rows.
        validation: The validation rows.
        test: The test rows.
        notes: What was noted while reading.

    Examples:
        >>> loaded = toughen.tasks.Data(toughen.tasks.task("sst2"), train=[{"sentence": "good", "label": 1}])
        >>> list(loaded.splits)
        ['train']
    """

    task: Task
    train: Any = None
    validation: Any = None
    test: Any = None
    notes: tuple[str, ...] = ()
    doubts: tuple[Message, ...] = ()
    """The notes to show without being asked: rows left out, words that may be no label."""

    @property
    def splits(self) -> dict[str, Any]:
        """The splits that are there, by name."""
        return {name: split for name in SPLITS if (split := getattr(self, name)) is not None}

    def each(self, change: Callable[[str, Any], Any]) -> "Data":
        """The same data with every split passed through `change(name, split)`."""
        return replace(self, **{name: change(name, split) for name, split in self.splits.items()})

    def report(
        self, tokenizer: object = None, max_length: int | None = None, longest: int | None = None
    ) -> "DataReport":
        """Return a report to print before training. `longest`: how many tokens the model reads."""
        from .data_report import data_report

        return data_report(self, tokenizer, max_length, longest)
