"""Errors and warnings: each names the thing, the reason and the way out."""

import difflib
import sys
import warnings
from collections.abc import Collection, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

MOST_NAMES = 30  # that a message lists


class MethodError(ValueError):
    """A method whose parts or settings do not fit together, known before anything runs."""


class UsageError(ValueError):
    """Wrong use that the caller can put right; `options` are the arguments that the message is about."""

    def __init__(self, message: str, options: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class Option(NamedTuple):
    """The clause of a message that names an option of `load`, and the one for callers without that option."""

    name: str
    clause: str
    otherwise: str = ""


class Message(str):
    """A problem, then clauses about options; `known` are the options that the caller has."""

    problem: str
    options: tuple[Option, ...]

    def __new__(cls, problem: str, *options: Option) -> "Message":
        made = super().__new__(cls, problem + "".join(option.clause for option in options))
        made.problem, made.options = problem, options
        return made

    def for_caller(self, known: Collection[str]) -> "Message":
        """Return the message without the options that are not `known`."""
        clauses = (each if each.name in known else each._replace(clause=each.otherwise) for each in self.options)
        return Message(self.problem, *clauses)


class DataError(ValueError):
    """Data that cannot be used as it is; one line that names the file, the row and the remedy.

    Args:
        problem: What is wrong.
        options: Clauses about options; a caller without an option leaves its clause out.

    Examples:
        >>> try:
        ...     toughen.tasks.load(train_file="missing.csv")
        ... except toughen.tasks.DataError as error:
        ...     print(error)
        missing.csv does not exist; check the path.
    """

    def __init__(self, problem: str, *options: Option):
        """Join the problem and what `options` say of it to one sentence."""
        self.message = Message(problem, *options)
        super().__init__(self.message if self.message.endswith((".", "?")) else f"{self.message}.")

    def for_caller(self, known: Collection[str]) -> "DataError":
        """Return the error without the options that are not `known`."""
        message = self.message.for_caller(known)
        return DataError(message.problem, *message.options)


class SiteError(RuntimeError):
    """The model has no such place, or its forward pass never came by it."""


class StepError(RuntimeError):
    """A training step that was fed or driven wrongly: no labels, a loss never back-propagated."""


class RobustnessWarning(UserWarning):
    """The step runs, but does less than its name promises."""


@cache
def warn_renamed(old: str, new: str) -> None:
    """Say the new name of an option, once."""
    warnings.warn(f"{old} is now {new}; the old name still works.", FutureWarning, stacklevel=5)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known ones, or all of them if they are few."""
    known = sorted(names)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    if len(known) <= MOST_NAMES:
        return f"Known: {', '.join(known)}."
    holding = [each for each in known if name.lower() in each.lower()]
    near = dict.fromkeys([*holding, *difflib.get_close_matches(name, known, n=3, cutoff=0.0)])
    return f"The nearest of {len(known)}: {', '.join(list(near)[:3])}."


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, singular or plural."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'This needs the package {module!r}. Install it with: pip install "toughen[{extra}]"'
        ) from error


def import_file(path: Path, refusal: type[ValueError]) -> ModuleType:
    """Run a person's Python file and return it as a module; a `refusal` names the line of a slip."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"toughen_own_{path.stem}", path)
    assert spec is not None  # a .py file always has both
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise refusal(f"{path}, line {error.lineno}: {error.msg}.") from None
    return module
