"""The `method:` group of a config: names, options as a config and a command line write them, and the method they make.

Nothing here imports torch until a method is made.
"""

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import or_
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import MethodError, import_file, nearest
from ..needs import declared
from ..options import OLD_NAMES, MethodOptions, attribute_docs
from ..registry import collect_methods, get_factory, list_methods, options_class, sum_methods

if TYPE_CHECKING:
    from ..method import Method, MethodSum

NO_DEFAULT: Any = inspect.Parameter.empty
CUSTOM = "own"  # the name of a method that was given as an object and that no name makes; `repr` says what it was


@dataclass(frozen=True)
class Option:
    """One option of a method."""

    name: str
    type: Any
    default: Any
    help: str


@dataclass(frozen=True)
class MethodDescription:
    """A method's name, what it is, and its options."""

    name: str
    doc: str
    options: tuple[Option, ...]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def title(self) -> str:
        return self.doc.strip().partition("\n")[0]


def describe_method(name: str) -> MethodDescription:
    """Describe a method by its name, a plug-in's, or `path/to/file.py:name`."""
    key, factory = _factory(name)
    kind = options_class(factory)
    return _of_function(key, factory) if kind is None else _of_class(key, kind)


def describe_methods() -> dict[str, MethodDescription]:
    """Describe all methods, in order of their names."""
    return {name: describe_method(name) for name in list_methods()}


def _of_class(name: str, kind: type[MethodOptions]) -> MethodDescription:
    presets = {preset: kind.preset_values(preset) for preset in kind.PRESETS}
    docs, options = attribute_docs(kind), list[Option]()
    for each in sorted(fields(kind), key=lambda each: (each.kw_only, each.name not in kind.__annotations__)):
        option, default, text = config_type(each.type), each.default, docs.get(each.name, "")
        if option is None:
            continue  # no config can hold it
        if each.name == "preset":
            text += f" One of {', '.join(presets)}."
        elif presets and default is not None and not isinstance(default, bool):
            option, default = option | None, None
            text += f" {_by_preset({preset: row[each.name] for preset, row in presets.items()})}"
        options.append(Option(each.name, option, default, text))
    return MethodDescription(name, inspect.getdoc(kind) or "", tuple(options), presets)


def _by_preset(values: Mapping[str, Any]) -> str:
    """Return the value of an option by default, and that of the presets where it differs."""
    usual = values["recommended"]
    differing = [f"{preset} {value}" for preset, value in values.items() if value != usual]
    return f"By default {usual}{'; by preset: ' if differing else ''}{', '.join(differing)}."


def _of_function(name: str, function: Callable[..., Any]) -> MethodDescription:
    from docstring_parser import parse  # comes with jsonargparse

    doc, options = inspect.getdoc(function) or "", list[Option]()
    try:
        hints = get_type_hints(function)
    except NameError:  # a type that is imported for type checkers alone
        hints = dict[str, Any]()
    kinds = (options_class(get_factory(each)) for each in (*reversed(list_methods()), "smart"))
    docs = {key: text for kind in kinds if kind is not None for key, text in attribute_docs(kind).items()}
    docs |= {each.arg_name: each.description or "" for each in parse(doc).params}
    for each in inspect.signature(function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        plain = isinstance(each.default, (bool, int, float, str))
        option = config_type(hints.get(each.name, type(each.default) if plain else None))
        if option is not None:
            options.append(Option(each.name, option, each.default, docs.get(each.name, "")))
    return MethodDescription(name, doc, tuple(options))


def config_type(annotation: object) -> Any:
    """Return the part of a type that a config can hold: `float | None` of `float | LinearSchedule | None`; or None."""
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    kept = [each for each in map(_config_member, members) if each is not None]
    return None if not kept or kept == [type(None)] else reduce(or_, kept)


def _config_member(member: Any) -> Any:
    origin, inner = get_origin(member), get_args(member)
    if member in (float, int, str, bool, list, dict, type(None), Any) or origin in (Literal, dict):
        return member
    if origin in (list, Sequence) and all(config_type(each) is not None for each in inner):
        return list[inner]
    return None


def own_file(name: str) -> tuple[Path | None, str]:
    """Split `./file.py:name` into file and name; any other name has no file."""
    match = re.fullmatch(r"(.+\.py)(?::(\w[\w-]*))?", name)
    if not match:
        return None, name
    path = Path(match[1])
    if not path.is_file():
        raise MethodError(f"{path} does not exist. Write one with: toughen new-method {quote(str(path))}")
    if match[2] is not None:
        return path, match[2]
    methods = _methods_in(path)
    if len(methods) != 1:
        raise MethodError(f"{path} has {len(methods)} methods; say which one: {path}:NAME.")
    return path, next(iter(methods))


def _factory(name: str) -> tuple[str, Callable[..., Any]]:
    """Return a method's key and factory: the package's, a plug-in's, or that of a user's file, which is imported."""
    path, key = own_file(name)
    if path is None:
        return key, get_factory(key)
    methods = _methods_in(path)
    if key not in methods:
        hint = nearest(key, methods) if methods else f"Write one with @toughen.register_method('...') in {path.name}."
        raise MethodError(f"{path} has no method {key!r}. {hint}")
    return key, methods[key]


_FILES: dict[tuple[Path, int], dict[str, Callable[..., Any]]] = {}


def _methods_in(path: Path) -> dict[str, Callable[..., Any]]:
    """Import a file once for each of its versions."""
    version = path.resolve(), path.stat().st_mtime_ns
    if version not in _FILES:
        with collect_methods() as methods:
            import_file(path, MethodError)
        _FILES[version] = methods
    return _FILES[version]


def _plain(value: object) -> Any:
    from ..schedules import LinearSchedule

    if isinstance(value, LinearSchedule):
        return [value.start, value.end, value.duration]
    return list(value) if isinstance(value, tuple) else value


def parts_of(name: str) -> list[tuple[str, str]]:
    """Return the names in a sum, each with the key of its settings: `smart+./mine.py:soft` -> smart, soft."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a YAML file may hold anything
        raise MethodError(f"method={name}: give a name, such as smart, or a sum: smart+rdrop.")
    parts = [part.strip() for part in name.split("+")]
    if not all(parts):
        raise MethodError(f"method {name!r}: write a sum as a+b.")
    keyed = [(part, own_file(part)[1]) for part in parts]
    if len({key for _, key in keyed}) < len(keyed):
        raise MethodError(f"method {name!r}: a sum holds each method once.")
    return keyed


def options_of(name: str) -> dict[str, tuple[MethodDescription, Option]]:
    """Return the dotted options of a method or sum: `weight`, or `smart.weight` in a sum."""
    parts = parts_of(name)
    options: dict[str, tuple[MethodDescription, Option]] = {}
    for part, key in parts:
        described = describe_method(part)
        prefix = f"{key}." if len(parts) > 1 else ""
        options |= {f"{prefix}{option.name}": (described, option) for option in described.options}
    return options


def settings_of(method: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the given settings of each part, by the part's name as written."""
    parts = parts_of(method["name"])
    rest = {key: value for key, value in method.items() if key != "name" and value is not None}
    if len(parts) == 1:
        return {parts[0][0]: rest}
    keys = [key for _, key in parts]
    for key, value in rest.items():
        if key not in keys or not isinstance(value, Mapping):
            own = " or ".join(f"method.{each}.{key}" for each in keys)
            raise MethodError(f"method.{key}: in a sum say whose option it is: {own}.")
    return {part: dict(rest.get(key) or {}) for part, key in parts}


def missing_options(method: Mapping[str, Any]) -> list[str]:
    """Return the dotted options that have no default and no value."""
    parts, given = parts_of(method["name"]), settings_of(method)
    return [
        f"{key}.{option.name}" if len(parts) > 1 else option.name
        for part, key in parts
        for option in describe_method(part).options
        if option.default is NO_DEFAULT and option.name not in given[part]
    ]


def check_method(method: Mapping[str, Any]) -> None:
    """Refuse unknown methods, options and presets without torch; a person's own file is imported."""
    if "repr" in method:
        return
    if not method.get("name"):
        raise MethodError("method has no name. Give one: --method smart (see: toughen methods).")
    for part, given in settings_of(method).items():
        described = describe_method(part)
        names = [option.name for option in described.options]
        for key in given:
            if key not in names and OLD_NAMES.get(key) not in names:
                hint = nearest(key, names) if names else "It has no options."
                raise MethodError(f"method {described.name} has no option {key!r}. {hint}")
        preset = given.get("preset")
        if described.presets and preset is not None and preset not in described.presets:
            raise MethodError(f"method {described.name} has no preset {preset!r}. {nearest(preset, described.presets)}")
    if missing := missing_options(method):
        raise MethodError(f"method.{missing[0]} has no default: give it a value (--method.{missing[0]}).")


def make_method(method: Mapping[str, Any]) -> "Method | MethodSum":
    """Make the method of a config."""
    if "repr" in method:
        raise MethodError(
            "the method was a Python object without a registered name; pass it again to toughen.train or "
            f"toughen.resume. It was {method['repr']}."
        )
    named = [(*_factory(part), given) for part, given in settings_of(method).items()]
    return sum_methods([(key, factory(**given)) for key, factory, given in named])


def method_to_config(method: "Method | MethodSum") -> dict[str, Any]:
    """Return the `method:` group of a config for a method; one that its options no longer make is `own`, as text."""
    parts = [_options_of(part) for part in methods_of(method)]
    named = {str(part["name"]): part for part in parts if part is not None}
    if len(named) < len(parts):
        return {"name": CUSTOM, "repr": repr(method)}
    if len(parts) == 1:
        return dict(parts[0] or {})
    settings = {name: {key: v for key, v in part.items() if key != "name"} for name, part in named.items()}
    return {"name": "+".join(named), **{name: given for name, given in settings.items() if given}}


def _options_of(method: "Method") -> dict[str, Any] | None:
    """Return the name and options of a method object as a config holds them; None if they do not make it."""
    options: MethodOptions | None = method.options
    if options is None or not type(options).__module__.startswith("toughen.methods.") or options.build() != method:
        return None
    values = {key: _plain(value) for key, value in options.changes().items()}
    return None if any(callable(value) for value in values.values()) else {"name": options.name, **values}


def is_method_of(config: Mapping[str, Any], method: "Method | MethodSum") -> bool:
    """Return whether a `method:` group makes this method."""
    if "repr" in config:
        return config["repr"] == repr(method)
    return make_method(config) == method


SEARCH_PASS = 2 / 3  # forward, and back to the perturbation only, without the weights' gradients
FORWARD_PASS = 1 / 3


def cost_of(method: "Method | MethodSum") -> float:
    """Return about how many plain steps a step costs; a backward pass counts as two forward passes."""
    first, *others = methods_of(method)
    both = 2.0 if any(getattr(each.site, "on", "clean") == "both" for each in (first, *others)) else 1.0

    def beside_clean(each: "Method") -> float:
        return (_cost_alone(each) - 1) * (1.0 if declared(each.site, "target") in ("none", "text") else both)

    if not others or declared(first.combine, "includes_clean_loss") or declared(first.site, "target") == "none":
        return 1 + sum(map(beside_clean, (first, *others)))  # a sum shares the clean pass
    return _cost_alone(first) * both + 1 + sum(map(beside_clean, others))  # the others need a clean pass


def search_gradients(method: "Method | MethodSum") -> int:
    """Return how many gradients the search takes by itself, beside the training's backward passes."""
    return sum(each.search.steps for each in methods_of(method) if not _searches_in_training(each))


def methods_of(method: "Method | MethodSum") -> "Sequence[Method]":
    """Return the methods of a sum, or a method alone."""
    from ..method import MethodSum

    return method.methods if isinstance(method, MethodSum) else (method,)


def _cost_alone(method: "Method") -> float:
    from ..combine.single_pass import PerturbedOnly

    if _searches_in_training(method):
        return float(len(method.combine.backward_passes(True, 1)))
    no_clean_pass = declared(method.site, "target") == "none" or isinstance(method.combine, PerturbedOnly)
    teacher = FORWARD_PASS if method.reference is not None else 0.0
    candidates = getattr(method.site, "worst_of", 1)
    choice = candidates * FORWARD_PASS if candidates > 1 else 0.0
    return (1.0 if no_clean_pass else 2.0) + method.search.steps * SEARCH_PASS + teacher + choice


def _searches_in_training(method: "Method") -> bool:
    combine = method.combine
    return declared(combine, "ascends_between_passes") or declared(combine, "acts_on") == "weights"
