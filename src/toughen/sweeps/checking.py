"""A sweep held against what runs take, before any of them starts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import Any, cast

from ..errors import nearest
from ..runs.config import GROUPS, Config
from ..runs.config_io import normalised, plain
from ..runs.hf_options import trainer_options
from ..runs.kinds import fits, worded
from ..runs.method_config import make_method, options_of
from .configs import trial_config
from .definition import Definition, Settings, rows_word
from .errors import SweepError


def grid(definition: Definition) -> list[Settings]:
    """Every combination of values once, the last parameter running fastest; a tied row counts as one value."""
    choices: list[list[Settings]] = [
        [{key: value} for value in each.ends] for key, each in definition.parameters.items()
    ]
    rows = product(*choices, definition.tied or ({},))
    found = [{key: value for part in row for key, value in part.items()} for row in rows]
    different: dict[str, Settings] = {}
    for row in found:
        different.setdefault(key_of(row), row)  # a value that is listed twice is one value
    return list(different.values())


def key_of(settings: Settings) -> str:
    """Equal settings have equal keys: 1 and 1.0 are one number, 1 and true are not."""
    return json.dumps(_alike(settings), sort_keys=True, default=str)


def _alike(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _alike(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_alike(each) for each in cast("Sequence[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _corners(definition: Definition) -> Iterator[Settings]:
    """For a space too large to go through: each value or end of each parameter, the others at their first."""
    first = {key: each.ends[0] for key, each in definition.parameters.items()}
    tied = definition.tied or ({},)
    yield from ({**first, **row} for row in tied)
    for key, each in definition.parameters.items():
        yield from ({**first, **tied[0], key: value} for value in each.ends)


def check_settings(definition: Definition) -> list[list[Config]]:
    """Build the config of every row, and its method; the first that cannot be is told with its settings.

    Gives the configs of each different set of data that the rows ask for: one for each different model.
    """
    data: dict[str, dict[str, Config]] = {}
    methods: set[str] = set()
    runs: dict[str, Settings] = {}
    rows = grid(definition) if definition.search == "grid" else list(_corners(definition))
    for settings in rows:
        try:
            _check_types(normalised(settings), definition.base)
            config = trial_config(definition.base, settings, definition.seeds)
            if repr(config.method) not in methods:
                make_method(config.method)
                methods.add(repr(config.method))
            if definition.search == "grid":
                _check_other(runs, config, settings)
        except (ValueError, TypeError) as error:
            raise SweepError(f"parameters: {error} (settings: {rows_word(settings)})") from error
        alike = data.setdefault(repr((config.model, config.task, config.data)), {})
        alike.setdefault(repr((config.head, config.model_config)), config)
    return [list(alike.values()) for alike in data.values()]


def _check_other(runs: dict[str, Settings], config: Config, settings: Settings) -> None:
    """Refuse a row that is the run of an earlier one: something in it has no effect, though the table would show it."""
    values = plain(config)
    if "max_steps" in values["train"]:
        del values["train"]["epochs"]  # updates go before them
    same = runs.setdefault(key_of(values), settings)
    if same is not settings:
        raise SweepError(f"{rows_word(same)} is the very same run; leave out what has no effect beside the rest.")


def _check_types(settings: Mapping[str, Any], base: Mapping[str, Any]) -> None:
    """Values of the right kind: `train.epochs: many` is told now and not by the first trial."""
    whole = {each.name: each.type for each in fields(Config)}
    named = [dict(each.get("method") or {}).get("name") for each in (settings, base)]
    method = str(named[0] or named[1] or "smart")
    for group, entry in settings.items():
        if group not in GROUPS and group not in ("method", "trainer"):
            _fits(group, entry, whole.get(group, Any))
            continue
        if not isinstance(entry, Mapping):
            raise SweepError(f"{group}={entry!r}: name one of its options with a dot, {group}.NAME.")
        kinds = _kinds(group, method)
        for key, value in _flat(cast("Mapping[str, Any]", entry)).items():
            _fits(f"{group}.{key}", value, kinds.get(key, Any))


def _kinds(group: str, method: str) -> Mapping[str, Any]:
    if group == "method":
        return {key: option.type for key, (_, option) in options_of(method).items()}
    return trainer_options() if group == "trainer" else {each.name: each.type for each in fields(GROUPS[group])}


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in entry.items():
        inner = isinstance(value, Mapping)
        found |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def _fits(key: str, value: Any, kind: Any) -> None:
    if not fits(value, kind):
        raise SweepError(f"{key}={value!r}: expected {worded(kind)}.")


def check_metric(definition: Definition, logged: Mapping[str, bool], selects: str) -> str:
    """The metric to rank by; refused where no run logs it, or where early stopping needs it each epoch.

    `logged` says of every score of a finished run whether it is also taken after each epoch.
    """
    name = definition.metric or selects
    if name not in logged:
        raise SweepError(f"metric.name: no run logs {name!r}. {nearest(name, logged)}")
    if definition.early is not None and not logged[name]:
        raise SweepError(f"metric.name: {name} is known only at the end of a run; early_terminate needs one per epoch.")
    return name
