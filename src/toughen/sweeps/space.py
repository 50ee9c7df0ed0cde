"""The search space of one parameter: values or a range, with the keys of W&B's sweep files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import nearest
from ..runs.config import GROUPS
from ..runs.config_io import EXPONENT
from .errors import SweepError

KEYS = ("values", "value", "min", "max", "log", "step", "distribution")
GROUPED = (*GROUPS, "method", "model_config", "trainer")
DISTRIBUTIONS = ("categorical", "constant", "uniform", "int_uniform", "log_uniform_values")


@dataclass(frozen=True)
class Choice:
    """One of several values, of any kind."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """List the values to check before anything runs."""
        return self.values


@dataclass(frozen=True)
class Range:
    """A number between two others, both included; `log` makes its logarithm uniform."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    is_integer: bool = False

    @property
    def ends(self) -> tuple[Any, ...]:
        """List the values to check before anything runs."""
        return (self.low, self.high)


Parameter = Choice | Range


def parameter(key: str, given: object) -> Parameter:
    """Parse an entry under `parameters:`; a bare value or list is allowed."""
    if not isinstance(given, Mapping):
        given = {"values": given} if isinstance(given, list) else {"value": given}
    entry: Mapping[str, Any] = given
    for name in entry:
        if name not in KEYS and key in GROUPED:
            raise SweepError(f"parameters.{key}: write options of a group with a dot: {key}.{name}.")
        if name not in KEYS:
            raise SweepError(f"parameters.{key}: there is no {name!r}. {nearest(str(name), KEYS)}")
    kind = entry.get("distribution")
    if kind is not None and kind not in DISTRIBUTIONS:
        raise SweepError(f"parameters.{key}.distribution: there is no {kind!r}. {nearest(str(kind), DISTRIBUTIONS)}")
    given_by = [name for name in ("value", "values", "min") if name in entry]
    if len(given_by) > 1:
        raise SweepError(f"parameters.{key}: {' and '.join(given_by)} exclude each other; keep one.")
    _refuse_unused(key, entry, kind)
    if "value" in entry:
        return Choice((number(entry["value"]),))
    if "values" in entry:
        values: Any = entry["values"]
        if isinstance(values, str):
            raise SweepError(f"parameters.{key}.values={values!r}: expected a list, such as [0.05, 0.1].")
        if not isinstance(values, Sequence) or not values:
            raise SweepError(f"parameters.{key}.values is empty: give one or more, such as [0.05, 0.1].")
        return Choice(tuple(number(value) for value in values))
    return _range(key, entry, kind)


def _refuse_unused(key: str, entry: Mapping[str, Any], kind: Any) -> None:
    """Refuse keys that have no effect: a list has no ends, a range is no list."""
    by = next((name for name in ("value", "values") if name in entry), None)
    listed = {"categorical": "values", "constant": "value"}
    if by is None:
        if kind in listed:
            raise SweepError(f"parameters.{key}: a {kind} distribution needs {listed[kind]}:.")
        return
    unused = [name for name in ("max", "step", "log") if name in entry]
    if kind is not None and kind not in listed:
        unused.append(f"distribution {kind}")
    if unused:
        has = "has" if len(unused) == 1 else "have"
        raise SweepError(f"parameters.{key}: {' and '.join(unused)} {has} no effect with {by}; leave it out.")


def _range(key: str, entry: Mapping[str, Any], kind: object) -> Range:
    low, high, step = (number(entry.get(name)) for name in ("min", "max", "step"))
    for name, value in (("min", low), ("max", high), ("step", 1 if step is None else step)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SweepError(
                f"parameters.{key}: give values: [...], or min: and max: as numbers ({name} is {value!r})."
            )
    if low >= high:
        raise SweepError(f"parameters.{key}: min {low} is not below max {high}.")
    if not isinstance(entry.get("log", False), bool):
        raise SweepError(f"parameters.{key}.log={entry['log']!r}: expected true or false.")
    log = entry.get("log", False) or kind == "log_uniform_values"
    numbers = [each for each in (low, high, step) if each is not None]
    is_integer = all(isinstance(each, int) for each in numbers) and kind not in ("uniform", "log_uniform_values")
    if kind == "int_uniform" and not is_integer:
        raise SweepError(f"parameters.{key}: int_uniform needs whole numbers, not {' and '.join(map(str, numbers))}.")
    if log and (low <= 0 or step is not None):
        raise SweepError(f"parameters.{key}: a log scale starts above 0 and has no step.")
    if step is not None and step <= 0:
        raise SweepError(f"parameters.{key}.step={step}: it must be above 0.")
    return Range(low, high, log, step, is_integer)


def number(value: object) -> Any:
    """Convert text such as 1e-5 to a number: YAML 1.1 reads it as text since it has no point."""
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value
