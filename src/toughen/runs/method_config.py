"""The `method:` group of a config: a name or a sum of names, with the settings of each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import MethodError, nearest
from ..options import OLD_NAMES
from ..registry import get_factory, sum_methods
from .method_options import (
    NO_DEFAULT,
    MethodDescription,
    Option,
    describe_method,
    method_in_file,
    options_of_method,
    own_file,
)

if TYPE_CHECKING:
    from ..method import Method, MethodSum


OWN = "own"  # the name of a method that was given as an object and that no name makes; `repr` says what it was


def parts_of(name: str) -> list[tuple[str, str]]:
    """The names of a sum with the key under which each one's settings stand: `smart+./mine.py:soft` -> smart, soft."""
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
    """The dotted options of a method or sum: `weight`, or `smart.weight` in a sum."""
    parts = parts_of(name)
    found: dict[str, tuple[MethodDescription, Option]] = {}
    for part, key in parts:
        described = describe_method(part)
        prefix = f"{key}." if len(parts) > 1 else ""
        found |= {f"{prefix}{option.name}": (described, option) for option in described.options}
    return found


def settings_of(method: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The given settings of each part, by the part's name as written."""
    parts = parts_of(method["name"])
    rest = {key: value for key, value in method.items() if key != "name" and value is not None}
    if len(parts) == 1:
        return {parts[0][0]: rest}
    keys = [key for _, key in parts]
    for key, value in rest.items():
        if key not in keys or not isinstance(value, Mapping):
            own = " or ".join(f"method.{each}.{key}" for each in keys)
            raise MethodError(f"method.{key}: in a sum say whose option it is: {own}.")
    return {part: dict(cast("Mapping[str, Any]", rest.get(key) or {})) for part, key in parts}


def missing_options(method: Mapping[str, Any]) -> list[str]:
    """The dotted options that have no default and no value."""
    given = settings_of(method)
    keys = {part: f"{key}." if len(given) > 1 else "" for part, key in parts_of(method["name"])}
    return [
        f"{keys[part]}{option.name}"
        for part, settings in given.items()
        for option in describe_method(part).options
        if option.default is NO_DEFAULT and option.name not in settings
    ]


def check_method(method: Mapping[str, Any]) -> None:
    """Refuse unknown methods, options and presets without torch; a person's own file is imported."""
    if method.get("name") == OWN and "repr" in method:
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
    if method["name"] == OWN and "repr" in method:
        raise MethodError(
            "the method was an object of a Python program and no name makes it; give it again, to toughen.train or "
            f"toughen.resume. It was {method['repr']}."
        )
    made: list[tuple[str, Any]] = []
    for part, given in settings_of(method).items():
        path, key = own_file(part)
        factory = get_factory(key) if path is None else method_in_file(path, key)
        made.append((key, factory(**given)))
    return sum_methods(made)


def config_of(method: "Method | MethodSum") -> dict[str, Any]:
    """The `method:` group of a config for a method or sum; one that its options no longer make is `own`, as text."""
    parts = [options_of_method(part) for part in getattr(method, "methods", (method,))]
    named = {str(part["name"]): part for part in parts if part is not None}
    if len(named) < len(parts):
        return {"name": OWN, "repr": repr(method)}
    if len(parts) == 1:
        return dict(parts[0] or {})
    settings = {name: {key: v for key, v in part.items() if key != "name"} for name, part in named.items()}
    return {"name": "+".join(named), **{name: given for name, given in settings.items() if given}}


def is_method_of(config: Mapping[str, Any], method: "Method | MethodSum") -> bool:
    """Whether a `method:` group makes this method."""
    if config["name"] == OWN and "repr" in config:
        return config["repr"] == repr(method)
    return make_method(config) == method
