"""Whether a value is of an option's type, in words that a person reads."""

import types
from typing import Any, Literal, Union, get_args, get_origin

WORDS = {float: "a number", int: "a whole number", str: "text", bool: "true or false", type(None): "null"}


def fits(value: Any, kind: Any) -> bool:
    """Whether a plain value can stand for an option of this type; whole numbers do for numbers."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(fits(each, get_args(kind)[0]) for each in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind is Any or isinstance(value, origin or kind)


def worded(kind: Any) -> str:
    """The type as a person says it: `a whole number or null`."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(worded(each) for each in get_args(kind))
    if origin is Literal:
        return ", ".join(map(str, get_args(kind)))
    if origin in (list, tuple):
        return f"a list of {worded(get_args(kind)[0]).removeprefix('a ').replace('number', 'numbers')} such as [a, b]"
    return WORDS.get(kind, getattr(kind, "__name__", str(kind)))
