"""Nested plain values to a `Config` and back, and YAML to values; what is wrong is reported before anything runs."""

import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast, get_type_hints

import yaml
from yaml.scanner import ScannerError

from ..errors import nearest
from .config import GROUPS, NAMED_GROUPS, Config, describe_type, matches_type
from .errors import RunError
from .method_config import check_method, config_type


class _Strict(yaml.SafeLoader):
    def construct_document(self, node: yaml.Node) -> Any:
        # Inner values first: what is merged into (<<) another mapping is looked at before it is, and an alias of what
        # it stands in is refused by the loader.
        self.deep_construct = True
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<" and key.value in keys:
                problem = f"the key {key.value!r} is there twice; put its values together"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The values of a text; `yaml.YAMLError` where it is no YAML or says a thing twice."""
    return yaml.load(text, _Strict)  # a SafeLoader


def read_yaml(path: Path, refusal: type[ValueError], otherwise: str) -> dict[str, Any]:
    """The values of a YAML or JSON file, or a refusal in one line: what is wrong with it, or what it is not."""
    try:
        values = _yaml_or_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refusal(f"{path}: {error.strerror or error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise refusal(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise refusal(f"{path} {otherwise}")
    return cast("dict[str, Any]", values)


def _yaml_or_json(text: str) -> Any:
    try:
        return load_yaml(text)
    except ScannerError:
        with suppress(ValueError):
            return json.loads(text)  # JSON may be indented by tabs, YAML not
        raise


PLAIN = ("model", "task", "baseline", "fast", "output_dir", "nproc", "trainer", "model_config", "recipe")
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def normalised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values with `method: freelb` spelled out, dotted keys unfolded and seeds as a list."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        top, _, rest = str(key).partition(".")
        if value is None and not rest:
            continue  # `data:` with nothing but comments under it
        if rest:
            value = _unfolded(rest, value)
        elif top in NAMED_GROUPS and not isinstance(value, Mapping):
            value = {"name": _group_name(top, value)}
        # The lists of `data` are names.
        _put(found, {top: _numbers(value, lists=top != "data") if isinstance(value, Mapping) else value})
    if "seed" in found:
        found["seed"] = seeds_of(found["seed"])
    return found


def _unfolded(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _unfolded(rest, value) if rest else value}


def _numbers(value: Any, lists: bool) -> Any:
    """Numbers such as 1e-5, which YAML 1.1 takes for text since they have no point."""
    if isinstance(value, Mapping):
        return {key: _numbers(each, lists) for key, each in cast("Mapping[str, Any]", value).items()}
    if lists and isinstance(value, list):
        return [_numbers(each, lists) for each in cast("list[Any]", value)]
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _group_name(group: str, value: Any) -> Any:
    if group == "peft" and isinstance(value, bool):
        return "lora" if value else None
    return value


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put one layer over another, group by group. Another method's name drops the settings of the one below.

    Epochs alone drop the updates below, which would go before them and leave them without effect.
    """
    train, known = above.get("train"), below.get("train")
    if isinstance(train, Mapping) and isinstance(known, dict) and "epochs" in train and "max_steps" not in train:
        cast("dict[str, Any]", known).pop("max_steps", None)
    return _put(below, above)


def _put(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            known = cast("dict[str, Any]", below[key])
            if key in NAMED_GROUPS and "name" in value and known.get("name") not in (None, value["name"]):
                known.clear()
            _put(known, cast("Mapping[str, Any]", value))
        else:
            below[key] = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
    return below


def seeds_of(value: Any) -> list[int]:
    """`1`, `"1,2,3"` or `[1, 2, 3]` as a list."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        if any(isinstance(part, (bool, float)) for part in cast("Sequence[Any]", parts)):
            raise ValueError  # int() would cut 1.7 and take true for 1
        seeds = [int(part) for part in parts]
    except (TypeError, ValueError):
        raise RunError(f"seed={value!r}: give a whole number, or several with commas: 1,2,3.") from None
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise RunError(f"seed={value!r}: give one or more different numbers, from 0 to 2**32 - 1.")
    return seeds


def build(values: Mapping[str, Any]) -> Config:
    """A `Config` from nested values, or a `RunError` that names the option."""
    values = normalised(values)
    _known("", values, [each.name for each in fields(Config)])
    _typed("", {key: values[key] for key in PLAIN if key in values}, Config)
    if not values.get("model"):
        raise RunError("which model? Give --model: a name on the Hugging Face Hub or a folder.")
    made: dict[str, Any] = dict(values)
    for name, kind in GROUPS.items():
        given = values.get(name) or {}
        if not isinstance(given, Mapping):
            raise RunError(
                f"{name}={given}: expected options by name, such as {name}: {{{fields(kind)[0].name}: ...}}."
            )
        given = dict(cast("Mapping[str, Any]", given))
        _known(f"{name}.", given, [each.name for each in fields(kind)])
        _typed(f"{name}.", given, kind)
        made[name] = kind(**given)
    made["seed"] = tuple(values.get("seed") or (1,))
    made["method"] = values.get("method") or {"name": "smart"}
    for name in ("method", "trainer", "model_config"):
        # A null goes over what a recipe says; without one it says nothing.
        made[name] = dict(made.get(name) or {}) if values.get("recipe") else _without_nulls(made.get(name) or {})
    config = Config(**made)
    _check(config)
    return config


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(cast("Mapping[str, Any]", each)) if isinstance(each, Mapping) else each
        for key, each in values.items()
        if each is not None
    }


def _known(prefix: str, given: Mapping[str, Any], names: list[str]) -> None:
    for key in given:
        if key not in names:
            homes = [f"{group}.{key}" for group, kind in GROUPS.items() if key in kind.__dataclass_fields__]
            hint = f"Did you mean {' or '.join(homes)}?" if homes else nearest(key, names)
            raise RunError(f"there is no option {prefix}{key}. {hint}")


def _typed(prefix: str, given: Mapping[str, Any], group: type) -> None:
    kinds = {each.name: each.type for each in fields(group)}
    for key, value in given.items():
        if not matches_type(value, kinds[key]):
            raise RunError(f"{prefix}{key}={value}: expected {describe_type(kinds[key])}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise RunError(f"{prefix}{key}={value}: give a finite number.")


def _check(config: Config) -> None:
    check_method(config.method)
    check_trainer(config.trainer)
    check_model_keys(config.model_config)
    if config.task is None and config.data.train_file is None:
        raise RunError("what to learn? Give --task NAME (see: toughen tasks) or --data.train_file FILE.")
    train = config.train
    for name in ("learning_rate", "epochs", "batch_size", "eval_batch_size", "log_steps"):
        if not getattr(train, name) > 0:
            raise RunError(f"train.{name}={getattr(train, name)}: it must be above 0.")
    for name in ("max_steps", "micro_batch", "save_steps", "patience"):
        if getattr(train, name) is not None and getattr(train, name) < 1:
            raise RunError(f"train.{name}={getattr(train, name)}: it must be at least 1.")
    for name, value in {"data.max_length": config.data.max_length, "nproc": config.nproc}.items():
        if value < 1:
            raise RunError(f"{name}={value}: it must be at least 1.")
    if train.warmup < 0:
        raise RunError(f"train.warmup={train.warmup}: it cannot be negative; below 1 it is a share of all updates.")
    for name in ("weight_decay", "max_grad_norm"):
        if getattr(train, name) < 0:
            raise RunError(f"train.{name}={getattr(train, name)}: it cannot be negative.")
    for name, bare in {"head": "second-order", "peft": "lora"}.items():
        group = getattr(config, name)
        changed = [each.name for each in fields(group) if getattr(group, each.name) != each.default]
        if changed and group.name is None:
            raise RunError(f"{name}.{changed[0]} does nothing without --{name} {bare}; add it, or leave it out.")
    if train.shard and config.peft.name:
        raise RunError("train.shard with --peft: adapters are merged into a whole model at the end; leave one out.")
    share = train.batch_size // config.nproc
    if share % min(train.micro_batch or share, share or 1):
        raise RunError(
            f"train.micro_batch={train.micro_batch} does not divide the {share} rows of a device's share of an update."
        )
    if train.batch_size % config.nproc:
        raise RunError(f"train.batch_size={train.batch_size} cannot be shared by {config.nproc} processes evenly.")


def plain(config: Config, nulls: bool = False) -> dict[str, Any]:
    """The config as nested plain values, without what is left at nothing unless `nulls` are wanted."""

    def cleared(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, Mapping):
            inner = {key: cleared(each) for key, each in cast("Mapping[str, Any]", value).items()}
            return {key: each for key, each in inner.items() if nulls or each is not None}
        return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value

    values: dict[str, Any] = {each.name: cleared(getattr(config, each.name)) for each in fields(config)}
    for group in ("head", "peft"):
        if values[group].get("name") is None and not nulls:
            del values[group]
    return {key: value for key, value in values.items() if value is not None and value != {}}


def to_yaml(config: Config) -> str:
    """config.yaml: merged and re-runnable. A null of a config with a recipe goes over what the recipe says."""
    values = plain(config, nulls=config.recipe is not None)
    return "# Run it again with: toughen train --config config.yaml\n" + yaml.safe_dump(values, sort_keys=False)


# Fields a run decides itself, and what to use instead.
TRAINER_RESERVED: Mapping[str, str] = {
    "output_dir": "output_dir",
    "seed": "seed",
    **{key: f"train.{key}" for key in ("max_steps", "learning_rate", "weight_decay", "max_grad_norm", "save_steps")},
    "warmup_steps": "train.warmup",
    "warmup_ratio": "train.warmup",
    "logging_steps": "train.log_steps",
    "per_device_eval_batch_size": "train.eval_batch_size",
    "save_total_limit": "train.keep_checkpoints",
    "num_train_epochs": "train.epochs",
    "per_device_train_batch_size": "train.micro_batch",
    "gradient_accumulation_steps": "train.batch_size and train.micro_batch",
    "resume_from_checkpoint": "--resume",
    "load_best_model_at_end": "train.patience, or nothing: the best epoch is always taken",
    "metric_for_best_model": "the task's first metric",
    "greater_is_better": "the task's first metric",
    "eval_strategy": "nothing: each epoch is scored",
    "save_strategy": "train.save_steps",
    "save_only_model": "nothing: a run that can be resumed needs the optimizer too",
    "bf16": "train.precision",
    "fp16": "train.precision",
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval"), "train.precision: it would halve the saved weights too"),
    "auto_find_batch_size": "nothing: passes shrink by themselves where memory runs out, and updates keep their rows",
    **dict.fromkeys(
        ("prediction_loss_only", "batch_eval_metrics", "eval_do_concat_batches"),
        "nothing: scores and predictions are of all rows together",
    ),
    "do_train": "toughen train",
    "do_eval": "toughen evaluate",
    "do_predict": "toughen predict",
}


@cache
def trainer_options() -> dict[str, Any]:
    """Return the type of each field of TrainingArguments; Any where a command line cannot write it. Imports torch."""
    from transformers import TrainingArguments

    hints = get_type_hints(TrainingArguments)
    return {each.name: config_type(hints[each.name]) or Any for each in fields(TrainingArguments) if each.init}


def check_trainer(given: Mapping[str, Any]) -> None:
    """Refuse unknown fields and those that a run decides itself."""
    for key in given:
        if key in TRAINER_RESERVED:
            raise RunError(f"trainer.{key} is the run's own; use {TRAINER_RESERVED[key]}.")
        if key not in trainer_options():
            raise RunError(f"transformers.TrainingArguments has no {key!r}. {nearest(key, trainer_options())}")


# Keys a run decides itself, and what to use instead.
MODEL_RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("num_labels", "id2label", "label2id", "problem_type"), "the task's labels say it"),
    **dict.fromkeys(("dtype", "torch_dtype"), "use train.precision"),
    **dict.fromkeys(("architectures", "model_type", "auto_map", "return_dict"), "the model's class says it"),
}


def check_model_keys(given: Mapping[str, Any]) -> None:
    """Refuse keys that a run decides itself, before anything is loaded."""
    for key in given:
        if key in MODEL_RESERVED:
            raise RunError(f"model_config.{key} cannot be changed: {MODEL_RESERVED[key]}.")
