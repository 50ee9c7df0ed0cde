"""Methods by name: the package's own, a plug-in's (entry points `toughen.methods`), or a person's."""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .errors import MethodError, nearest
from .options import OLD_NAMES, MethodOptions, attribute_docs

if TYPE_CHECKING:
    from .method import Method, MethodSum

P = ParamSpec("P")
T = TypeVar("T", bound=Callable[..., Any])
_NAMED: dict[str, Callable[..., Any]] = {}
_COLLECTING: list[dict[str, Callable[..., Any]]] = []


def register_method(name: str) -> Callable[[T], T]:
    """Give a class of options, or a function that returns a method, its name.

    Args:
        name: What `create_method` and `toughen train --method` call it.

    Returns:
        A decorator, which returns the class or the function as it is.

    Raises:
        MethodError: A method of this name already exists.

    Examples:
        >>> from dataclasses import replace
        >>> @toughen.register_method("small-step")
        ... def small_step(step_size: float = 0.002):
        ...     '''SMART with a smaller step.'''
        ...     return replace(toughen.smart(step_size=step_size), options=None)
        >>> attached = toughen.create_method("small-step").attach(model, tokenizer)
    """

    def register(made: T) -> T:
        if name in _NAMED and _NAMED[name].__module__ != made.__module__:
            raise MethodError(f"A method named {name!r} already exists ({_NAMED[name].__module__}). Take another name.")
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


def public_factory(name: str) -> Callable[..., Any]:
    """Return the function that makes a method, with every option in its docstring, for `help(toughen.smart)`."""
    make = get_factory(name)
    kind = options_class(make)
    if kind is not None and "\nArgs:" not in (make.__doc__ or ""):
        make.__dict__["__signature__"] = signature(kind).replace(return_annotation="Method")
        with suppress(ImportError):  # what reads the options' texts comes with the command line
            make.__doc__ = _full_doc(kind)
    return make


def _full_doc(kind: type[MethodOptions]) -> str:
    docs = attribute_docs(kind)
    text, _, example = inspect.cleandoc(kind.__doc__ or "").partition("\nExamples:\n")
    usual = (
        f"    >>> with toughen.{kind.name}().attach(model, tokenizer, total_steps=100) as attached:\n"
        "    ...     loss = attached.backward(model, batch)"
    )
    arguments = [f"    {each.name}: {' '.join(docs[each.name].split())}" for each in fields(kind)]
    return "\n".join(
        [
            text.rstrip(),
            *(["", "Args:", *arguments] if arguments else []),
            "",
            "Returns:",
            "    Method: What `attach` binds to a model; `options` holds these options.",
            "",
            "Raises:",
            "    MethodError: An unknown preset, or a value that cannot be.",
            "",
            "Examples:",
            example.rstrip() or usual,
        ]
    )


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
    """Return the names of all methods that can be made.

    Returns:
        The names, sorted; plug-ins and methods of your own are among them once they are imported.

    Examples:
        >>> toughen.list_methods()
        ['alum', 'asa', ...]
    """
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
    """Make a method by name, or a sum of methods: "freelb", "smart+bregman".

    Args:
        name: The name of a method, or several with + between them.
        **settings: The options of the method. Those of a sum go by part: `smart={"preset": "paper"}`.

    Returns:
        The method, as `toughen.smart(...)` and its siblings return it.

    Raises:
        MethodError: An unknown name or option, or methods that do not go together.

    Examples:
        >>> method = toughen.create_method("freelb", steps=2)
        >>> both = toughen.create_method("smart+bregman", smart={"preset": "paper"})
        >>> [type(each.combine).__name__ for each in both.methods]
        ['Add', 'Add']
    """
    parts = [part.strip() for part in name.split("+")]
    if len(parts) == 1:
        return _create(parts[0], settings)
    if stray := [key for key, value in settings.items() if key not in parts or not isinstance(value, Mapping)]:
        raise MethodError(
            f"Settings of a sum are ambiguous. Create the parts and add them: {' + '.join(parts)}; or give each part "
            f"its own, as in create_method({name!r}, {parts[0]}={{{stray[0]!r}: ...}})."
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
