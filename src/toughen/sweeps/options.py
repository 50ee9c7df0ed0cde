"""The groups `early_terminate:` and `resources:` of a sweep file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from ..errors import nearest
from .errors import SweepError
from .space import number


@dataclass(frozen=True)
class Early:
    """When a trial that does badly is stopped: asynchronous successive halving, or below the median of the others."""

    type: Literal["asha", "median"]
    min_iter: int = 1
    """Evaluations (one an epoch) that every trial makes."""
    eta: int = 3
    """ASHA: one in so many goes on at each rung; the rungs are min_iter, min_iter * eta, ..."""
    min_trials: int = 3
    """Median: trials that finish before any is stopped."""


@dataclass(frozen=True)
class Resources:
    """What one trial gets; without a value what the machine suggests, or no limit."""

    cpu: float | None = None
    gpu: float | None = None
    memory_gb: float | None = None
    minutes: float | None = None
    concurrent: int | None = None


def early_terminate(given: Any) -> Early | None:
    """`early_terminate: {type: asha, min_iter: 1}`, or the type alone."""
    if given is None:
        return None
    if not isinstance(given, (str, Mapping)):
        raise SweepError(f"early_terminate: expected {{type: asha, min_iter: 1}}, not {given!r}.")
    entry: dict[str, Any] = {"type": given} if isinstance(given, str) else dict(cast("Mapping[str, Any]", given))
    kind = entry.pop("type", None)
    if kind not in ("asha", "median"):
        raise SweepError(f"early_terminate.type: there is no {kind!r}; there are asha and median.")
    for key, value in entry.items():
        if key not in ("min_iter", "eta", "min_trials"):
            raise SweepError(f"early_terminate: there is no {key!r}; there are type, min_iter, eta and min_trials.")
        whole(f"early_terminate.{key}", value, 2 if key == "eta" else 1)
    return Early(kind, **entry)


def resources(given: Mapping[str, Any]) -> Resources:
    """`resources: {gpu: 0.5, cpu: 2, memory_gb: 16, minutes: 60, concurrent: 4}`."""
    names = [each.name for each in fields(Resources)]
    given = {key: number(value) for key, value in given.items()}
    for key, value in given.items():
        if key not in names:
            raise SweepError(f"resources: there is no {key!r}. {nearest(str(key), names)}")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf or (not value and key != "gpu"):
            raise SweepError(f"resources.{key}={value!r}: give a number above 0.")
        if key == "gpu" and value > 1 and value != int(value):
            raise SweepError(f"resources.gpu={value}: a share of one GPU, or a whole number of them.")
    if "concurrent" in given:
        whole("resources.concurrent", given["concurrent"], 1)
    return Resources(**given)


def whole(key: str, value: Any, least: int) -> int:
    """The value, if it is a whole number and no less than `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SweepError(f"{key}={value!r}: give a whole number, at least {least}.")
    return value
