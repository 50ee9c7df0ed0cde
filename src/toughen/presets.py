"""Settings of a method by the name of their source, with single ones changed."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from .errors import MethodError, RobustnessWarning, nearest
from .schedules import LinearSchedule, minimum, scheduled

S = TypeVar("S")
POSITIVE = ("step_size", "rho", "probe", "growth")
NOT_NEGATIVE = ("weight", "init_scale", "max_norm", "temperature")
SIZES = (*POSITIVE, *NOT_NEGATIVE, "steps")


def choose(presets: Mapping[str, S], preset: str, *, ball: bool = True, **changes: Any) -> S:
    """The preset's settings, with those changed that are not None; a list is the numbers of a ramp.

    `ball` is whether `max_norm` is the radius of a ball, in the units of `step_size`.
    """
    if preset not in presets:
        raise MethodError(f"There is no preset {preset!r}. {nearest(preset, presets)}")
    given = {k: scheduled(v) if isinstance(v, (list, tuple)) else v for k, v in changes.items() if v is not None}
    settings = replace(presets[preset], **given)  # pyright: ignore[reportArgumentType, reportCallIssue]
    check(settings)
    if ball and "step_size" in given:
        _warn_if_cut(settings, presets[preset])
    return settings


def _warn_if_cut(settings: Any, preset: Any) -> None:
    """A longer step has no effect where the ball cuts it; what a preset says is as published."""
    step, radius = (minimum(getattr(settings, name, 0.0)) for name in ("step_size", "max_norm"))
    if step > radius > 0 and (settings.step_size, settings.max_norm) != (preset.step_size, preset.max_norm):
        warnings.warn(
            f"step_size={step:g}, but steps are cut at max_norm={radius:g}: raise max_norm, too.",
            RobustnessWarning,
            stacklevel=4,
        )


def check(settings: Any) -> None:
    """Sizes that cannot be: every method says the same about them."""
    for field in fields(settings):
        name = field.name
        value: Any = getattr(settings, name)
        if isinstance(value, LinearSchedule):
            value = minimum(value)
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
