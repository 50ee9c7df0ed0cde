"""Settings of a method by the name of their source, with single ones changed."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from .errors import MethodError, nearest
from .schedule import Ramp, lowest, scheduled

S = TypeVar("S")
POSITIVE = ("step_size", "rho", "probe", "growth")
NOT_NEGATIVE = ("weight", "init_scale", "max_norm", "temperature")
SIZES = (*POSITIVE, *NOT_NEGATIVE, "steps")


def choose(presets: Mapping[str, S], preset: str, **changes: Any) -> S:
    """The preset's settings, with those changed that are not None; a list is the numbers of a ramp."""
    if preset not in presets:
        raise MethodError(f"There is no preset {preset!r}. {nearest(preset, presets)}")
    given = {k: scheduled(v) if isinstance(v, (list, tuple)) else v for k, v in changes.items() if v is not None}
    settings = replace(presets[preset], **given)  # pyright: ignore[reportArgumentType, reportCallIssue]
    check(settings)
    return settings


def check(settings: Any) -> None:
    """Sizes that cannot be: every method says the same about them."""
    for field in fields(settings):
        name = field.name
        value: Any = getattr(settings, name)
        if isinstance(value, Ramp):
            value = lowest(value)
        if name in SIZES and isinstance(value, str):
            raise MethodError(f"{name}={value!r}: it must be a number.")
        if name == "steps" and isinstance(value, float):
            raise MethodError(f"steps={value}: it must be a whole number.")
        if name in POSITIVE and value is not None and not value > 0:
            raise MethodError(f"{name}={value}: it must be above 0.")
        if name in NOT_NEGATIVE and value is not None and not value >= 0:
            raise MethodError(f"{name}={value}: it cannot be negative.")
        if name == "steps" and value is not None and value < 1:
            raise MethodError(f"steps={value}: at least one is needed.")
