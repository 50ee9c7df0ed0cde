"""Methods by name: the package's own, a plug-in's (entry points `toughen.methods`), or a person's."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .errors import MethodError, nearest
from .options import OLD_NAMES, MethodOptions

if TYPE_CHECKING:
    from .method import Method, MethodSum

P = ParamSpec("P")
T = TypeVar("T", bound=Callable[..., Any])
_NAMED: dict[str, Callable[..., Any]] = {}
_COLLECTING: list[dict[str, Callable[..., Any]]] = []


def register_method(name: str) -> Callable[[T], T]:
    """Give a class of options, or a function that returns a method, its name."""

    def register(made: T) -> T:
        if name in _NAMED and _NAMED[name].__module__ != made.__module__:
            raise MethodError(
                f"A method named {name!r} is there already ({_NAMED[name].__module__}). Take another name."
            )
        kind: Any = made
        _NAMED[name] = made
        if isinstance(kind, type) and issubclass(kind, MethodOptions):
            kind.name = name
            _NAMED[name] = factory(kind)
        for collected in _COLLECTING:
            collected[name] = _NAMED[name]
        return made

    return register


def factory(options: Callable[P, MethodOptions]) -> "Callable[P, Method]":
    """The function that makes a method from its options: `toughen.smart` of `Smart`."""
    kind: Any = options

    def make(*given: P.args, **changes: P.kwargs) -> "Method":
        return kind.choose(*given, **changes).method()

    make.__name__ = make.__qualname__ = kind.name
    make.__module__, make.__doc__ = kind.__module__, kind.__doc__
    make.__dict__["__wrapped__"] = kind  # its signature
    return make


def options_class(factory: Callable[..., Any]) -> type[MethodOptions] | None:
    """The options behind a factory; None where a plain function makes the method."""
    kind = getattr(factory, "__wrapped__", None)
    return kind if isinstance(kind, type) and issubclass(kind, MethodOptions) else None


@contextmanager
def collect_methods() -> Generator[dict[str, Callable[..., Any]]]:
    """Note the methods that are registered meanwhile."""
    collected: dict[str, Callable[..., Any]] = {}
    _COLLECTING.append(collected)
    try:
        yield collected
    finally:
        _COLLECTING.remove(collected)


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
    if name not in _NAMED and name.isidentifier() and find_spec(f"toughen.methods.{name}"):
        import_module(f"toughen.methods.{name}")  # most are in the file of their name
    if name not in _NAMED:
        _load_own()
    if name not in _NAMED:
        from importlib.metadata import entry_points

        for plugin in entry_points(group="toughen.methods", name=name):
            return plugin.load()
        raise MethodError(f"There is no method {name!r}. {nearest(name, _NAMED)}")
    return _NAMED[name]


def create_method(name: str, **settings: Any) -> "Method | MethodSum":
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


def sum_methods(named: "Sequence[tuple[str, Method | MethodSum]]") -> "Method | MethodSum":
    """The sum of methods by their names, which a refusal then names."""
    from .method import MethodSum, incompatibility

    parts = [
        (name, each) for name, made in named for each in (made.methods if isinstance(made, MethodSum) else (made,))
    ]
    if problem := incompatibility(parts):
        raise MethodError(problem)
    first, *others = [made for _, made in named]
    for other in others:
        first = first + other
    return first


def _create(name: str, settings: Mapping[str, Any]) -> "Method | MethodSum":
    """Looked at before the call, so that a TypeError from inside the function stays what it is."""
    function = get_factory(name)
    options = signature(function).parameters.values()
    known = [each.name for each in options if each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    unknown = [key for key in settings if key not in known and OLD_NAMES.get(key) not in known]
    if unknown and all(each.kind is not Parameter.VAR_KEYWORD for each in options):
        hint = nearest(unknown[0], known) if known else "It has no options."
        raise MethodError(f"method {name} has no option {unknown[0]!r}. {hint}")
    return function(**settings)
