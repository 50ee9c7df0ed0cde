"""Errors and warnings: each names the thing, the reason and the way out."""

import difflib
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from types import ModuleType

MOST_NAMES = 30  # that a message lists


class MethodError(ValueError):
    """A method whose parts or settings do not fit together, known before anything runs."""


class UsageError(ValueError):
    """Wrong use that the caller can put right; `options` are the arguments that the message is about."""

    def __init__(self, message: str, options: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


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


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'This needs the package {module!r}. Install it with: pip install "toughen[{extra}]"'
        ) from error
