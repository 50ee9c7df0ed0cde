"""What every attack is: a frozen dataclass whose fields are its options, registered under a name."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..errors import nearest
from ..tasks.spec import DataError, Task
from .summary import Curve, Group, TextScores

if TYPE_CHECKING:
    from .target import Target

Row = Mapping[str, Any]
Record = dict[str, Any]
"""What is kept of one item of an attack: JSON with the item's number as `index`."""
A = TypeVar("A", bound="type[Attack]")
_CLASSES: "dict[str, type[Attack]]" = {}


def option(default: object, **metadata: Any) -> Any:
    """Declare an option that needs more than a default.

    `choices` are the names that it takes. `flag` is its flag on the command line if that is not its name; "" is none.
    """
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Outcome:
    """The outcome of every row at one point of an attack, for paired comparisons."""

    rows: Any
    """Whether each row is right; or, with `labels`, the answers."""
    labels: Any = None


@dataclass(frozen=True)
class ChangedRow:
    """A row as an attack left it, and the model's answer to it."""

    index: int
    row: Row
    answer: Any
    queries: int | None = None


@dataclass(frozen=True)
class AttackScores:
    """The scores of an attack (one of `curve`, `attacked` and `groups`), and the outcome of every row at each point."""

    outcomes: Mapping[str, Outcome]
    notes: Sequence[str] = ()
    curve: Curve | None = None
    attacked: TextScores | None = None
    groups: Sequence[Group] | None = None
    metric: str | None = None
    """If it is not the target's."""
    rows: int | None = None
    """If it is not the target's number of rows."""


@dataclass(frozen=True)
class Attack:
    """Base of all attacks: items of work by number, a record of each, and the scores of all records.

    A subclass has a field for each option, with a docstring under it. The first line of its own docstring is its help.
    """

    name: ClassVar[str]
    """The name it is registered under."""
    title: ClassVar[str]
    """Its name in reports."""
    examples: ClassVar[bool] = False
    """Whether its records are attacked examples that people read."""
    white_box: ClassVar[bool] = False
    """Whether it needs the model's weights, which a function does not show."""

    def __post_init__(self) -> None:
        for each in option_fields(type(self)):
            value = getattr(self, each.name)
            if isinstance(value, os.PathLike):
                object.__setattr__(self, each.name, os.fspath(value))
            if isinstance(value, (list, tuple)):
                names: tuple[Any, ...] = tuple(value)
                if known := each.metadata.get("choices"):
                    names = check_names(names, known, each.name)
                object.__setattr__(self, each.name, names)

    @property
    def kind(self) -> str:
        """What the reports call an attack of this sort."""
        return self.name

    @property
    def records_ending(self) -> str:
        """How the name of the file of its records ends."""
        return ".jsonl" if self.examples else ".rows.jsonl"

    @property
    def settings(self) -> dict[str, Any]:
        """The options as JSON; results under other settings are other results."""
        values = {each.name: getattr(self, each.name) for each in option_fields(type(self))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def check(self, task: Task) -> None:
        """Refuse a task that the attack is not for."""

    def cache_key(self, target: "Target") -> Sequence[Any]:
        """Return what the result depends on besides settings, rows and weights."""
        return ()

    def num_items(self, target: "Target") -> int:
        return len(target.rows)

    def run_items(self, target: "Target", numbers: Sequence[int]) -> Iterator[list[Record]]:
        """Yield the records of these items, as they are done."""
        raise NotImplementedError

    def summarize(self, target: "Target", records: Sequence[Record]) -> AttackScores:
        """Return the scores of all records."""
        raise NotImplementedError

    def changed_rows(self, target: "Target", records: Sequence[Record]) -> "list[ChangedRow]":
        """Return the target's rows at the end of the attack; none if the attack is on other rows."""
        return []


def register_attack(name: str) -> Callable[[A], A]:
    """Register a subclass of `Attack` under a name."""

    def register(attack: A) -> A:
        if name in _CLASSES and _CLASSES[name].__module__ != attack.__module__:
            raise DataError(f"{_CLASSES[name].__module__} already has an attack {name!r}. Take another name.")
        attack.name = name
        _CLASSES[name] = attack
        return attack

    return register


@cache
def _load_builtin() -> None:
    package = import_module("toughen.attacks.builtin")
    for module in iter_modules(package.__path__):
        import_module(f"toughen.attacks.builtin.{module.name}")


def attack_classes() -> "dict[str, type[Attack]]":
    """Return all registered attacks by name, in the order of their names."""
    _load_builtin()
    return dict(sorted(_CLASSES.items()))


def option_fields(attack: type[Attack]) -> list[Field[Any]]:
    """Return the fields of an attack that are options."""
    return [each for each in fields(attack) if each.init]


@dataclass(frozen=True)
class AttackOption:
    """An option of one attack or several, in which its name has one meaning and one default."""

    name: str
    flag: str
    """On the command line; "" for none."""
    default: Any
    attacks: "tuple[type[Attack], ...]"


def attack_options() -> dict[str, AttackOption]:
    """Return the options of all attacks by name."""
    options: dict[str, AttackOption] = {}
    for attack in attack_classes().values():
        for each in option_fields(attack):
            before = options[each.name].attacks if each.name in options else ()
            flag = each.metadata.get("flag", each.name)
            options[each.name] = AttackOption(each.name, flag, each.default, (*before, attack))
    return options


def check_names(given: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the names without repeats; raise for an unknown one and say the nearest."""
    names = tuple(dict.fromkeys(given))
    for name in names:
        if name not in known:
            raise DataError(f"{what}: there is no {name!r}. {nearest(name, known)}")
    return names
