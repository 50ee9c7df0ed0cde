"""The sweep file: its keys, their checks, and the settings as text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from ..errors import nearest
from ..runs.config_io import normalised, seeds_of
from .errors import SweepError
from .space import Choice, Parameter, number, parameter

Settings = Mapping[str, Any]
Search = Literal["grid", "random", "tpe"]
SEARCHES = {"grid": "grid", "random": "random", "tpe": "tpe", "bayes": "tpe"}
GOALS = ("maximize", "minimize")
# W&B's word -> ours.
SYNONYMS = {"method": "search", "run_cap": "trials"}
KEYS = (
    *("base", "search", "metric", "parameters", "tied", "seeds", "trials", "early_terminate", "resources"),
    *("retries", "search_seed", "name", "description"),
)


@dataclass(frozen=True)
class Early:
    """When to stop a bad trial: by asynchronous successive halving, or below the median of the others."""

    type: Literal["asha", "median"]
    min_iter: int = 1
    """Evaluations (one an epoch) that every trial makes."""
    eta: int = 3
    """ASHA: one in so many goes on at each rung; the rungs are min_iter, min_iter * eta, ..."""
    min_trials: int = 3
    """Median: trials that finish before any is stopped."""


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
    def sign(self) -> int:
        """Return 1 if a higher score is better, else -1."""
        return 1 if self.goal == "maximize" else -1


def parse(given: Mapping[str, Any]) -> Definition:
    """Parse the values of a sweep file whose `base` is a config; an error names its key."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = SYNONYMS.get(name, name)
        if key not in KEYS:
            raise SweepError(f"a sweep file has no {key!r}. {nearest(str(key), KEYS)}")
        if value is not None:
            if key in values:
                raise SweepError(f"{name}: it says the same as {key}:, which is there too; leave one out.")
            values[key] = value
    if not isinstance(values.get("base"), Mapping):
        raise SweepError("base: give a config, the name of a recipe, or a file.")
    base = normalised(cast("Mapping[str, Any]", values["base"]))
    search = SEARCHES.get(str(values.get("search", "grid")))
    if search is None:
        raise SweepError(f"search: there is no {values['search']!r}. {nearest(str(values['search']), SEARCHES)}")
    parameters = {key: parameter(key, entry) for key, entry in _mapping(values, "parameters").items()}
    tied = _tied(values.get("tied"), parameters)
    if not parameters and not tied:
        raise SweepError("parameters: nothing is searched; give parameters: or tied:.")
    searched = [*parameters, *(tied[0] if tied else ())]
    for key in searched:
        if key in ("seed", "output_dir", "recipe"):
            raise SweepError(f"parameters.{key}: a sweep decides this itself; use seeds:, --output_dir or base:.")
    if base.get("baseline") or "baseline" in searched:
        key = "parameters" if "baseline" in searched else "base"
        raise SweepError(f"{key}.baseline: a trial trains no baseline; search over method.name: [plain, ...] instead.")
    metric, goal = _metric(values.get("metric"))
    own = base.pop("seed", [1])
    base.pop("output_dir", None)  # of the run that the base was taken from; trials have their own, and best.yaml none
    seeds = tuple(seeds_of(values.get("seeds", own)))
    made = Definition(
        values={**values, "base": base, "search": search, "seeds": list(seeds)},
        base=base,
        search=cast("Search", search),
        metric=metric,
        goal=goal,
        parameters=parameters,
        tied=tied,
        seeds=seeds,
        trials=whole("trials", values["trials"], 1) if "trials" in values else None,
        early=early_terminate(values.get("early_terminate")),
        resources=resources(_mapping(values, "resources")),
        retries=whole("retries", values.get("retries", 1), 0),
        search_seed=whole("search_seed", values.get("search_seed", 0), 0),
    )
    _fits(made)
    return made


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, Mapping):
        raise SweepError(f"{key}: expected keys and values, not {found!r}.")
    return cast("Mapping[str, Any]", found)


def _tied(given: Any, parameters: Mapping[str, Any]) -> tuple[Settings, ...]:
    """Parse the rows of settings that change together, as in ParaGen's search.json."""
    if given is None:
        return ()
    if not isinstance(given, list) or not given or not all(isinstance(row, Mapping) and row for row in given):
        raise SweepError("tied: give a list of rows, each with the same keys: - {method.init_scale: 0.1, ...}.")
    rows = [{str(key): number(value) for key, value in row.items()} for row in cast("list[Mapping[str, Any]]", given)]
    first = set(rows[0])
    for index, row in enumerate(rows, 1):
        if set(row) != first:
            odd = ", ".join(sorted(first ^ set(row)))
            raise SweepError(f"tied: row {index} and row 1 do not have the same keys ({odd}).")
    if both := first & set(parameters):
        raise SweepError(f"tied: {', '.join(sorted(both))} stands under parameters: too.")
    return tuple(rows)


def _metric(given: Any) -> tuple[str | None, str]:
    """Parse the metric's name, without `eval/`, and the goal; the default is to minimise a loss or an error."""
    entry: Any = {"name": given} if isinstance(given, str) else given or {}
    if not isinstance(entry, Mapping) or set(cast("Mapping[str, Any]", entry)) - {"name", "goal"}:
        raise SweepError(f"metric: expected {{name: accuracy, goal: maximize}}, not {given!r}.")
    found = cast("Mapping[str, Any]", entry)
    name = found.get("name")
    short = None if name is None else str(name).removeprefix("eval/").removeprefix("eval_")
    lower = short is not None and not {"loss", "mse"}.isdisjoint(short.split("_"))  # loss_mm, test_mse
    goal = str(found.get("goal", "minimize" if lower else "maximize"))
    if goal not in GOALS:
        raise SweepError(f"metric.goal: there is no {goal!r}. {nearest(goal, GOALS)}")
    return short, goal


def _fits(made: Definition) -> None:
    if made.search == "grid":
        for key, each in made.parameters.items():
            if not isinstance(each, Choice):
                raise SweepError(f"parameters.{key}: a grid needs values: [...]; ranges are for random and tpe.")
        if made.trials:
            raise SweepError("trials: a grid runs all of its settings; leave it out, or search: random.")
    elif not made.trials:
        raise SweepError(f"trials: how many settings may {made.search} try? Give trials: 20.")


def format_settings(settings: Settings) -> str:
    """Format settings as `key=value, key=value`."""
    return ", ".join(f"{key}={format_value(value)}" for key, value in settings.items())


def format_value(value: Any) -> str:
    """Format a value; a float with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def differences(one: Definition, other: Definition) -> Sequence[str]:
    """List the keys in which two sweeps differ, except those that may change between starts."""
    free = ("resources", "retries", "trials", "name", "description")
    keys = {*one.values, *other.values} - set(free)
    return sorted(key for key in keys if one.values.get(key) != other.values.get(key))


def early_terminate(given: Any) -> Early | None:
    """Parse `early_terminate: {type: asha, min_iter: 1}`, or the type alone."""
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
    """Parse `resources: {gpu: 0.5, cpu: 2, memory_gb: 16, minutes: 60, concurrent: 4}`."""
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
    """Return the value if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SweepError(f"{key}={value!r}: give a whole number, at least {least}.")
    return value
