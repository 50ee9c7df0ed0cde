"""Checks that are made before any trial starts: the settings, the data, which is tokenised once, and the metric."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from ..errors import nearest
from ..runs.config import Config, describe_type, matches_type
from ..runs.config_io import check_trainer, normalised, plain
from ..runs.method_config import make_method, options_of
from .definition import Definition, Settings, format_settings
from .errors import SweepError
from .trials import trial_config

if TYPE_CHECKING:
    from ..tasks import Data


def grid(definition: Definition) -> list[Settings]:
    """List every combination of values once, the last parameter fastest; a tied row counts as one value."""
    space, rows = definition.space, dict[str, Settings]()
    for values in product(*(each.ends for each in space.values())):
        row = definition.settings_at(dict(zip(space, values, strict=True)))
        rows.setdefault(key_of(row), row)  # a value that is listed twice is one value
    return list(rows.values())


def key_of(settings: Settings) -> str:
    """Map equal settings to equal keys: 1 and 1.0 are one number, 1 and true are not."""
    return json.dumps(_alike(settings), sort_keys=True, default=str)


def _alike(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _alike(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_alike(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _corners(definition: Definition) -> list[Settings]:
    """Vary one parameter at a time over its values or ends: a sample of a space too large to list."""
    space = definition.space.items()
    first = {key: each.ends[0] for key, each in space}
    return [definition.settings_at({**first, key: value}) for key, each in space for value in each.ends]


def validate_settings(definition: Definition) -> list[list[Config]]:
    """Build the config and the method of every row; the first error is raised with its settings.

    Gives the configs of each different set of data that the rows ask for: one for each different model.
    """
    data: dict[str, dict[str, Config]] = {}
    methods: set[str] = set()
    runs: dict[str, Settings] = {}
    for settings in grid(definition) if definition.search == "grid" else _corners(definition):
        try:
            config = trial_config(definition.base, settings, definition.seeds)
            _check_types(settings, config)
            if repr(config.method) not in methods:
                make_method(config.method)
                methods.add(repr(config.method))
            if definition.search == "grid":
                _check_other(runs, config, settings)
        except (ValueError, TypeError) as error:
            raise SweepError(f"parameters: {error} (settings: {format_settings(settings)})") from error
        alike = data.setdefault(repr((config.model, config.task, config.data)), {})
        alike.setdefault(repr((config.head, config.model_config)), config)
    return [list(alike.values()) for alike in data.values()]


def _check_other(runs: dict[str, Settings], config: Config, settings: Settings) -> None:
    """Refuse a row that is the same run as an earlier one: a setting in it has no effect."""
    values = plain(config)
    if "max_steps" in values["train"]:
        del values["train"]["epochs"]  # updates go before them
    same = runs.setdefault(key_of(values), settings)
    if same is not settings:
        raise SweepError(f"{format_settings(same)} is the same run twice; leave out the option without effect.")


def _check_types(settings: Mapping[str, Any], config: Config) -> None:
    """Check the types of the settings that the method and the Trainer read, which `build` does not know."""
    check_trainer(config.trainer)
    for key, value in flat(normalised(settings)):
        group, _, name = key.partition(".")
        kind: Any = Any
        if group == "method" and name in (options := options_of(config.method_name)):
            kind = options[name][1].type
        if not matches_type(value, kind):
            raise SweepError(f"{key}={value!r}: expected {describe_type(kind)}.")


def flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested options with their dotted keys."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def validate_metric(definition: Definition, logged: Mapping[str, bool], selects: str) -> str:
    """Return the metric to rank by; refuse one that no run logs, or that early stopping lacks after each epoch.

    `logged` says of every score of a finished run whether it is also taken after each epoch.
    """
    name = definition.metric or selects
    if name not in logged:
        raise SweepError(f"metric.name: no run logs {name!r}. {nearest(name, logged)}")
    if definition.early is not None and not logged[name]:
        raise SweepError(f"metric.name: {name} is known only at the end of a run; early_terminate needs one per epoch.")
    return name


def shared_scores(alike: Iterable[Sequence[Config]]) -> tuple[dict[str, bool], str]:
    """Prepare all data, once if configs share it; return the scores that all have, and the default metric.

    A score is True if it is also logged after each epoch.
    """
    prepared = [_prepare_data(configs) for configs in alike]
    scores = [_scores_of(sets, scored) for sets, scored in prepared]
    common = {name: each for name, each in scores[0].items() if all(name in other for other in scores)}
    return common, prepared[0][0][""].task.primary_metric


def _prepare_data(configs: Sequence[Config]) -> "tuple[dict[str, Data], str]":
    """Read and tokenise the data that these configs share, as their runs will; refuse wrong models.

    Return the data, under "", and what its models are scored on as well, by the ending of its metrics; and the split
    that is scored after each epoch.
    """
    from ..runs.modeling import load_tokenizer, max_input_length, overridden_config
    from ..runs.prepare import load_data, load_extra_eval_sets
    from ..runs.progress import silence_libraries
    from ..tasks import prepare

    config = configs[0]
    with silence_libraries():
        data = load_data(config)
        for each in configs:
            overridden_config(each, data.task)
        tokenizer = load_tokenizer(config.model, lower_case=config.data.lower_case)
        length, *_ = max_input_length(config, tokenizer)
        sets = {"": data, **load_extra_eval_sets(config, data.task)[0]}
        cache = config.data.cache_dir
        prepared = {key: prepare(each, tokenizer, length, cache_dir=cache) for key, each in sets.items()}
        return prepared, config.data.eval_split


def _scores_of(sets: "Mapping[str, Data]", scored: str) -> dict[str, bool]:
    scores: dict[str, bool] = {}
    for key, data in sets.items():
        ending = f"_{key}" if key else ""
        for split, rows in data.splits.items():
            if (split == "train" and split != scored) or "labels" not in rows.column_names:
                continue  # without labels there are predictions only
            prefix = "" if split == scored else f"{split}_"
            scores |= {f"{prefix}{name}{ending}": not prefix + ending for name in ("loss", *data.task.metrics)}
    return scores
