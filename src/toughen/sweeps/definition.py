"""The sweep file: its keys with those of W&B's files, their checks, and the settings as text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..errors import nearest
from ..runs.config import GROUPS
from ..runs.config_io import EXPONENT, normalised, seeds_of
from .errors import SweepError

PARAMETER_KEYS = ("values", "value", "min", "max", "log", "step", "distribution")
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
        if name not in PARAMETER_KEYS and key in GROUPED:
            raise SweepError(f"parameters.{key}: write options of a group with a dot: {key}.{name}.")
        if name not in PARAMETER_KEYS:
            raise SweepError(f"parameters.{key}: there is no {name!r}. {nearest(str(name), PARAMETER_KEYS)}")
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


Settings = Mapping[str, Any]
Search = Literal["grid", "random", "tpe"]
SEARCHES: Mapping[str, Search] = {"grid": "grid", "random": "random", "tpe": "tpe", "bayes": "tpe"}
TIED = "tied"
GOALS = ("maximize", "minimize")
# W&B's word -> ours.
SYNONYMS = {"method": "search", "run_cap": "trials"}
KEYS = (
    *("base", "search", "metric", "parameters", "tied", "seeds", "trials", "early_terminate", "resources"),
    *("retries", "search_seed", "name", "description"),
)


@dataclass(frozen=True)
class Early:
    """When to stop a bad trial: by asynchronous successive halving, below the others' median, or below a score."""

    type: Literal["asha", "median", "threshold"]
    min_iter: int = 1
    """Evaluations (one an epoch) that every trial makes."""
    eta: int = 3
    """ASHA: one in so many goes on at each rung; the rungs are min_iter, min_iter * eta, ..."""
    min_trials: int = 3
    """Median: trials that finish before any is stopped."""
    lower: float | None = None
    """Threshold: a score below it stops the trial."""


@dataclass(frozen=True)
class Resources:
    """The resources of one trial; None is the default of the machine, or no limit."""

    cpu: float | None = None
    gpu: float | None = None
    memory_gb: float | None = None
    minutes: float | None = None
    concurrent: int | None = None


@dataclass(frozen=True)
class Definition:
    """A sweep file after the check of its keys; `values` are what sweep.yaml holds."""

    values: Mapping[str, Any]
    base: Mapping[str, Any]
    search: Search
    metric: str | None
    goal: str
    parameters: Mapping[str, Parameter]
    tied: tuple[Settings, ...]
    seeds: tuple[int, ...]
    trials: int | None
    early: Early | None
    resources: Resources
    retries: int
    search_seed: int

    @property
    def keys(self) -> list[str]:
        """List the parameters in the order of the file, tied ones last."""
        return [*self.parameters, *(self.tied[0] if self.tied else ())]

    @property
    def space(self) -> Mapping[str, Parameter]:
        """Return the parameters, with the tied rows as the values of one."""
        return {**self.parameters, **({TIED: Choice(self.tied)} if self.tied else {})}

    def settings_at(self, point: Mapping[str, Any]) -> Settings:
        """Return the settings at a point of the space."""
        return {**{key: point[key] for key in self.parameters}, **point.get(TIED, {})}

    @property
    def sign(self) -> int:
        """Return 1 if a higher score is better, else -1."""
        return 1 if self.goal == "maximize" else -1


def parse(given: Mapping[str, Any]) -> Definition:
    """Parse the values of a sweep file whose `base` is a config; an error names its key."""
    values = _with_our_words(given)
    base = normalised(_mapping("base", values.get("base"), "give a config, the name of a recipe, or a file"))
    search = SEARCHES.get(str(values.get("search", "grid")))
    if search is None:
        raise SweepError(f"search: there is no {values['search']!r}. {nearest(str(values['search']), SEARCHES)}")
    entries = _mapping("parameters", values.get("parameters", {}))
    parameters = {key: parameter(key, entry) for key, entry in entries.items()}
    tied = _tied(values["tied"], parameters) if "tied" in values else ()
    _check_keys([*parameters, *(tied[0] if tied else ())], base)
    metric, goal = _metric(values.get("metric", {}))
    own = base.pop("seed", [1])
    base.pop("output_dir", None)  # of the run that the base was taken from; trials have their own, and best.yaml none
    seeds = seeds_of(values.get("seeds", own))
    trials = whole_number("trials", values["trials"], 1) if "trials" in values else None
    _check_search(search, parameters, trials)
    return Definition(
        values={**values, "base": base, "search": search, "seeds": seeds},
        base=base,
        search=search,
        metric=metric,
        goal=goal,
        parameters=parameters,
        tied=tied,
        seeds=tuple(seeds),
        trials=trials,
        early=_early_terminate(values["early_terminate"]) if "early_terminate" in values else None,
        resources=_resources(_mapping("resources", values.get("resources", {}))),
        retries=whole_number("retries", values.get("retries", 1), 0),
        search_seed=whole_number("search_seed", values.get("search_seed", 0), 0),
    )


def _with_our_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate W&B's keys, and leave out those without a value."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = SYNONYMS.get(name, name)
        if key not in KEYS:
            raise SweepError(f"a sweep file has no {key!r}. {nearest(str(key), KEYS)}")
        if key in values and value is not None:
            raise SweepError(f"{name}: it means the same as {key}:, which is also given; leave one out.")
        if value is not None:
            values[key] = value
    return values


def _mapping(key: str, value: object, remedy: str = "") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SweepError(f"{key}: {remedy or f'expected keys and values, not {value!r}'}.")
    return value


def _check_keys(keys: Sequence[str], base: Mapping[str, Any]) -> None:
    """Refuse settings that a sweep decides itself."""
    if not keys:
        raise SweepError("parameters: nothing is searched; give parameters: or tied:.")
    for key in keys:
        if key in ("seed", "output_dir", "recipe"):
            raise SweepError(f"parameters.{key}: a sweep decides this itself; use seeds:, --output_dir or base:.")
    if base.get("baseline") or "baseline" in keys:
        key = "parameters" if "baseline" in keys else "base"
        raise SweepError(f"{key}.baseline: a trial trains no baseline; search over method.name: [plain, ...] instead.")


def _check_search(search: Search, parameters: Mapping[str, Parameter], trials: int | None) -> None:
    if search != "grid":
        if not trials:
            raise SweepError(f"trials: how many settings may {search} try? Give trials: 20.")
        return
    for key, each in parameters.items():
        if not isinstance(each, Choice):
            raise SweepError(f"parameters.{key}: a grid needs values: [...]; ranges are for random and tpe.")
    if trials:
        raise SweepError("trials: a grid runs all of its settings; leave it out, or search: random.")


def _tied(given: object, parameters: Mapping[str, Any]) -> tuple[Settings, ...]:
    """Parse the rows of settings that change together, as in ParaGen's search.json."""
    if not isinstance(given, list) or not given or not all(isinstance(row, Mapping) and row for row in given):
        raise SweepError("tied: give a list of rows, each with the same keys: - {method.init_scale: 0.1, ...}.")
    rows = [{str(key): number(value) for key, value in row.items()} for row in given]
    for index, row in enumerate(rows, 1):
        if unequal := sorted(set(row) ^ set(rows[0])):
            raise SweepError(f"tied: row {index} and row 1 do not have the same keys ({', '.join(unequal)}).")
    if both := sorted(set(rows[0]) & set(parameters)):
        raise SweepError(f"tied: {', '.join(both)} is under parameters: as well.")
    return tuple(rows)


def _metric(given: object) -> tuple[str | None, str]:
    """Parse the metric's name, without `eval/`, and the goal; the default is to minimise a loss or an error."""
    metric: Any = {"name": given} if isinstance(given, str) else given
    if not isinstance(metric, Mapping) or set(metric) - {"name", "goal"}:
        raise SweepError(f"metric: expected {{name: accuracy, goal: maximize}}, not {given!r}.")
    name = str(metric.get("name") or "").removeprefix("eval/").removeprefix("eval_")
    is_loss = not {"loss", "mse"}.isdisjoint(name.split("_"))  # loss_mm, test_mse
    goal = str(metric.get("goal", "minimize" if is_loss else "maximize"))
    if goal not in GOALS:
        raise SweepError(f"metric.goal: there is no {goal!r}. {nearest(goal, GOALS)}")
    return name or None, goal


def _early_terminate(given: object) -> Early:
    """Parse `early_terminate: {type: asha, min_iter: 1}`, or the type alone."""
    expected = f"expected {{type: asha, min_iter: 1}}, not {given!r}"
    entry = {"type": given} if isinstance(given, str) else _mapping("early_terminate", given, expected)
    _check_names("early_terminate", entry, Early)
    if entry.get("type") not in ("asha", "median", "threshold"):
        raise SweepError(
            f"early_terminate.type: there is no {entry.get('type')!r}; there are asha, median and threshold."
        )
    if (entry["type"] == "threshold") != isinstance(entry.get("lower"), (int, float)):
        raise SweepError(
            "early_terminate: threshold needs lower: and the others have none; give {type: threshold, lower: 0.5}."
        )
    for key in {*entry} - {"type", "lower"}:
        whole_number(f"early_terminate.{key}", entry[key], 2 if key == "eta" else 1)
    return Early(**entry)


def _resources(given: Mapping[str, Any]) -> Resources:
    """Parse `resources: {gpu: 0.5, cpu: 2, memory_gb: 16, minutes: 60, concurrent: 4}`."""
    _check_names("resources", given, Resources)
    values = {key: number(value) for key, value in given.items()}
    for key, value in values.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf or (not value and key != "gpu"):
            raise SweepError(f"resources.{key}={value!r}: give a number above 0.")
        if key == "gpu" and value > 1 and value != int(value):
            raise SweepError(f"resources.gpu={value}: a share of one GPU, or a whole number of them.")
    if "concurrent" in values:
        whole_number("resources.concurrent", values["concurrent"], 1)
    return Resources(**values)


def _check_names(key: str, given: Mapping[str, Any], kind: type) -> None:
    names = [each.name for each in fields(kind)]
    for name in given:
        if name not in names:
            raise SweepError(f"{key}: there is no {name!r}. {nearest(str(name), names)}")


def whole_number(key: str, value: object, least: int) -> int:
    """Return the value if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SweepError(f"{key}={value!r}: give a whole number, at least {least}.")
    return value


def format_settings(settings: Settings) -> str:
    """Format settings as `key=value, key=value`."""
    return ", ".join(f"{key}={format_value(value)}" for key, value in settings.items())


def format_value(value: object) -> str:
    """Format a value; a float with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def differences(one: Definition, other: Definition) -> Sequence[str]:
    """List the keys in which two sweeps differ, except those that may change between starts."""
    keys = {*one.values, *other.values} - {"resources", "retries", "trials", "name", "description"}
    return sorted(key for key in keys if one.values.get(key) != other.values.get(key))
