"""A method object as a name with settings: what a config can say of it, and whether it can be run again from there."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import MethodError
from .method_config import OWN
from .signatures import Signature, known

Settings = dict[str, Any]
TRIED = 4  # names and presets that are nearest as they stand


def recognised(method: Any) -> Settings:
    """The `method:` group of a config for a method or sum of methods; one that no name makes is `own`, as text only."""
    parts = [_recognised(part) for part in getattr(method, "methods", (method,))]
    names = [str(part["name"]) for part in parts if part is not None]
    if len(names) < len(parts) or len(set(names)) < len(names):
        return {"name": OWN, "repr": repr(method)}
    if len(parts) == 1:
        return dict(parts[0] or {})
    settings = {part["name"]: {key: v for key, v in part.items() if key != "name"} for part in parts if part}
    return {"name": "+".join(names), **{name: given for name, given in settings.items() if given}}


def _recognised(method: Any) -> Settings | None:
    wanted = dict(_leaves(method))
    starts: list[tuple[Signature, Settings]] = []
    for signature in known().values():
        starts += [(signature, {}), *((signature, {"preset": preset}) for preset in signature.presets)]
    starts.sort(key=lambda start: _differences(*start, wanted))
    for signature, given in starts[:TRIED]:
        if (settings := _settings(signature, given, wanted)) is not None:
            return {"name": signature.name, **settings}
    return None


def _settings(signature: Signature, given: Settings, wanted: Mapping[str, Any]) -> Settings | None:
    """Options that make exactly this method. Each is tried with the values that stand in the method, and near ones."""
    best = _differences(signature, given, wanted)
    for option in signature.options:
        if best == 0 or option.name == "preset":
            continue
        for value in dict.fromkeys(each for leaf in wanted.values() for each in _near(leaf)):
            tried = {**given, option.name: value}
            left = _differences(signature, tried, wanted)
            if left < best:
                given, best = tried, left
    return given if best == 0 else None


def _near(leaf: Any) -> tuple[Any, ...]:
    """R-Drop halves its weight, and FreeLB climbs once less than it passes."""
    return (leaf, 2 * leaf, leaf + 1) if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) else (leaf,)


def _differences(signature: Signature, given: Settings, wanted: Mapping[str, Any]) -> float:
    """In how many places the method of these settings is another one; without end where it cannot be made."""
    from .. import registry

    try:
        made = dict(_leaves(registry.get_factory(signature.name)(**given)))
    except (MethodError, TypeError, ValueError):
        return float("inf")
    return sum(key not in made or key not in wanted or made[key] != wanted[key] for key in {*made, *wanted})


def _leaves(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a method by their place, the types of its parts in the place's name."""
    path = f"{path}/{type(part).__name__}"
    if is_dataclass(part):
        for each in fields(part):
            yield from _leaves(getattr(part, each.name), f"{path}.{each.name}")
    elif isinstance(part, (bool, int, float, str, type(None))):
        yield path, part
    else:
        yield path, repr(part)
