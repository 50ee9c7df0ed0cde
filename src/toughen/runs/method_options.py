"""A method's options as a config and a command line write them: types, defaults and help, without torch."""

import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import or_
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from ..errors import MethodError, nearest
from ..options import MethodOptions, attribute_docs
from ..registry import collect_methods, get_factory, list_methods, options_class

NO_DEFAULT: Any = inspect.Parameter.empty


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
    path, key = own_file(name)
    factory = get_factory(key) if path is None else method_in_file(path, key)
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
            text += f" By preset: {', '.join(f'{preset} {row[each.name]!r}' for preset, row in presets.items())}."
        options.append(Option(each.name, option, default, text))
    return MethodDescription(name, inspect.getdoc(kind) or "", tuple(options), presets)


def _of_function(name: str, function: Callable[..., Any]) -> MethodDescription:
    doc, options = inspect.getdoc(function) or "", list[Option]()
    try:
        hints = get_type_hints(function)
    except NameError:  # a type that is imported for type checkers alone
        hints = dict[str, Any]()
    shared = _shared_docs()
    for each in inspect.signature(function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        plain = isinstance(each.default, (bool, int, float, str))
        option = config_type(hints.get(each.name, type(each.default) if plain else None))
        if option is not None:
            text = re.search(rf"^\s+{each.name}(?: \(.*?\))?: (.+)$", doc.partition("Args:")[2], flags=re.M)
            options.append(
                Option(each.name, option, each.default, text[1].strip() if text else shared.get(each.name, ""))
            )
    return MethodDescription(name, doc, tuple(options))


def _shared_docs() -> dict[str, str]:
    """What an option of this name means in the package's methods, in SMART before all others."""
    kinds = [options_class(get_factory(name)) for name in ("smart", *list_methods())]
    return {name: text for kind in reversed(kinds) if kind is not None for name, text in attribute_docs(kind).items()}


def config_type(annotation: Any) -> Any:
    """The part of a type that a config can hold, such as `float | None` of `float | LinearSchedule | None`, or None."""
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
    """`./file.py:name` as file and name; any other name has no file."""
    match = re.fullmatch(r"(.+\.py)(?::(\w[\w-]*))?", name)
    if not match:
        return None, name
    path = Path(match[1])
    if not path.is_file():
        raise MethodError(f"{path} is not there. Write one with: toughen new-method {quote(str(path))}")
    if match[2] is not None:
        return path, match[2]
    found = _methods_in(path)
    if len(found) != 1:
        raise MethodError(f"{path} has {len(found)} methods; say which one: {path}:NAME.")
    return path, next(iter(found))


def method_in_file(path: Path, name: str) -> Callable[..., Any]:
    """A method of a person's own file, which is imported for it."""
    found = _methods_in(path)
    if name not in found:
        hint = nearest(name, found) if found else f"Write one with @toughen.register_method('...') in {path.name}."
        raise MethodError(f"{path} has no method {name!r}. {hint}")
    return found[name]


_FILES: dict[tuple[Path, int], dict[str, Callable[..., Any]]] = {}


def _methods_in(path: Path) -> dict[str, Callable[..., Any]]:
    """Import a file once for each of its versions."""
    version = path.resolve(), path.stat().st_mtime_ns
    if version not in _FILES:
        spec = importlib.util.spec_from_file_location(f"toughen_own_{path.stem}", path)
        assert spec is not None  # a .py file always has both
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look their module up
        try:
            with collect_methods() as found:
                spec.loader.exec_module(module)
        except SyntaxError as error:
            raise MethodError(f"{path}, line {error.lineno}: {error.msg}.") from None
        _FILES[version] = found
    return _FILES[version]


def options_of_method(method: Any) -> dict[str, Any] | None:
    """The name and options of a method object as a config holds them; None where they do not make it."""
    options: MethodOptions | None = method.options
    if options is None or not type(options).__module__.startswith("toughen.methods.") or options.build() != method:
        return None
    values = {key: _plain(value) for key, value in options.changes().items()}
    return None if any(callable(value) for value in values.values()) else {"name": options.name, **values}


def _plain(value: Any) -> Any:
    from ..schedules import LinearSchedule

    if isinstance(value, LinearSchedule):
        return [value.start, value.end, value.duration]
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
