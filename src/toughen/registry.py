"""Methods by name: the package's own, a plug-in's (entry points `toughen.methods`), or a person's."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import Any, ParamSpec, TypeVar

from .errors import MethodError, nearest
from .method import Method, MethodSum, incompatibility

P = ParamSpec("P")
M = TypeVar("M", bound="Method | MethodSum")
_NAMED: dict[str, Callable[..., Any]] = {}


def register_method(name: str) -> Callable[[Callable[P, M]], Callable[P, M]]:
    """Give a function that returns a method its name."""

    def register(function: Callable[P, M]) -> Callable[P, M]:
        if name in _NAMED and _NAMED[name].__module__ != function.__module__:
            raise MethodError(
                f"A method named {name!r} is there already ({_NAMED[name].__module__}). Take another name."
            )
        _NAMED[name] = function
        return function

    return register


@cache
def _load_own() -> None:
    package = import_module("toughen.methods")
    for module in iter_modules(package.__path__):
        if not module.name.startswith("_"):
            import_module(f"toughen.methods.{module.name}")


def list_methods() -> list[str]:
    """The names of all methods that can be made."""
    _load_own()
    return sorted(_NAMED)


def get_factory(name: str) -> Callable[..., Any]:
    """The function that makes the method of this name; its signature holds the method's settings."""
    _load_own()
    if name not in _NAMED:
        for plugin in entry_points(group="toughen.methods", name=name):
            return plugin.load()
        raise MethodError(f"There is no method {name!r}. {nearest(name, _NAMED)}")
    return _NAMED[name]


def create_method(name: str, **settings: Any) -> Method | MethodSum:
    """A method by name, or a sum of names: `make("freelb", step_size=0.1)`, `make("smart+bregman")`.

    The settings of a sum go by part: `make("smart+bregman", smart={"preset": "paper"})`.
    """
    parts = [part.strip() for part in name.split("+")]
    if len(parts) == 1:
        return _create(parts[0], settings)
    if stray := [key for key, value in settings.items() if key not in parts or not isinstance(value, Mapping)]:
        raise MethodError(
            f"Settings of a sum are ambiguous. Make the parts yourself and add them: {' + '.join(parts)}; or say whose "
            f"{stray[0]!r} is: make({name!r}, {parts[0]}={{...}})."
        )
    return sum_methods([(part, _create(part, settings.get(part, {}))) for part in parts])


def sum_methods(register_method: Sequence[tuple[str, Method | MethodSum]]) -> Method | MethodSum:
    """The sum of methods by their names, which a refusal then names."""
    parts = [
        (name, each)
        for name, made in register_method
        for each in (made.methods if isinstance(made, MethodSum) else (made,))
    ]
    if problem := incompatibility(parts):
        raise MethodError(problem)
    first, *others = [made for _, made in register_method]
    for other in others:
        first = first + other
    return first


def _create(name: str, settings: Mapping[str, Any]) -> Method | MethodSum:
    """Looked at before the call, so that a TypeError from inside the function stays what it is."""
    function = get_factory(name)
    options = signature(function).parameters.values()
    known = [each.name for each in options if each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    unknown = [key for key in settings if key not in known]
    if unknown and all(each.kind is not Parameter.VAR_KEYWORD for each in options):
        hint = nearest(unknown[0], known) if known else "It has no options."
        raise MethodError(f"method {name} has no option {unknown[0]!r}. {hint}")
    return function(**settings)
