"""Turn YAML into nested plain values, these into a `Config` and back; report what is wrong before anything runs."""

import json
import math
import operator
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from yaml.scanner import ScannerError

from ..errors import nearest
from .config import GROUPS, NAMED_GROUPS, Config, TrainConfig, describe_type, matches_type
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
                problem = f"the key {key.value!r} is given twice; put its values together"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Read the values of a text; raise `yaml.YAMLError` if it is no YAML or says a thing twice."""
    return yaml.load(text, _Strict)  # a SafeLoader


def read_yaml(path: Path, refusal: type[ValueError], otherwise: str) -> dict[str, Any]:
    """Read a YAML or JSON file; a `refusal` says in one line what is wrong with it, or what it is not."""
    try:
        values = _yaml_or_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refusal(f"{path}: {error.strerror or error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise refusal(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise refusal(f"{path} {otherwise}")
    return values


def _yaml_or_json(text: str) -> Any:
    try:
        return load_yaml(text)
    except ScannerError:
        with suppress(ValueError):
            return json.loads(text)  # JSON may be indented by tabs, YAML not
        raise


EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def normalised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with `method: freelb` spelled out, dotted keys unfolded and seeds as a list."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        top, _, rest = str(key).partition(".")
        if value is None and not rest:
            continue  # `data:` with nothing but comments under it
        if rest:
            for part in reversed(rest.split(".")):
                value = {part: value}
        elif top in NAMED_GROUPS and not isinstance(value, Mapping):
            # `peft: true` is LoRA.
            value = {"name": ("lora" if value else None) if top == "peft" and isinstance(value, bool) else value}
        # The lists of `data` are names.
        _put(nested, {top: _numbers(value, lists=top != "data") if isinstance(value, Mapping) else value})
    if "seed" in nested:
        nested["seed"] = seeds_of(nested["seed"])
    return nested


def _numbers(value: object, lists: bool) -> Any:
    """Read numbers such as 1e-5, which YAML 1.1 takes for text since they have no point."""
    if isinstance(value, Mapping):
        return {key: _numbers(each, lists) for key, each in value.items()}
    if lists and isinstance(value, list):
        return [_numbers(each, lists) for each in value]
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put one layer over another, group by group. Another method's name drops the settings of the one below.

    Epochs alone drop the updates below, which would go before them and leave them without effect.
    """
    train, known = above.get("train"), below.get("train")
    if isinstance(train, Mapping) and isinstance(known, dict) and "epochs" in train and "max_steps" not in train:
        known.pop("max_steps", None)
    return _put(below, above)


def _put(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            known = below[key]
            if key in NAMED_GROUPS and "name" in value and known.get("name") not in (None, value["name"]):
                known.clear()
            _put(known, value)
        else:
            below[key] = dict(value) if isinstance(value, Mapping) else value
    return below


def seeds_of(value: Any) -> list[int]:
    """Return `1`, `"1,2,3"` or `[1, 2, 3]` as a list."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        if any(isinstance(part, (bool, float)) for part in parts):
            raise ValueError  # int() would cut 1.7 and take true for 1
        seeds = [int(part) for part in parts]
    except (TypeError, ValueError):
        raise RunError(f"seed={value!r}: give a whole number, or several with commas: 1,2,3.") from None
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise RunError(f"seed={value!r}: give one or more different numbers, from 0 to 2**32 - 1.")
    return seeds


def build(values: Mapping[str, Any]) -> Config:
    """Make a `Config` of nested values, or raise a `RunError` that names the option."""
    parts: dict[str, Any] = normalised(values)
    _check_options("", {key: value for key, value in parts.items() if key not in GROUPS}, Config)
    if not parts.get("model"):
        raise RunError("which model? Give --model: a name on the Hugging Face Hub or a folder.")
    for name, kind in GROUPS.items():
        given = parts.get(name, {})
        if not isinstance(given, Mapping):
            raise RunError(
                f"{name}={given}: expected options by name, such as {name}: {{{fields(kind)[0].name}: ...}}."
            )
        _check_options(f"{name}.", given, kind)
        parts[name] = kind(**given)
    parts["seed"] = tuple(parts.get("seed", (1,)))
    for name in ("method", "trainer", "model_config"):
        # A null goes over what a recipe says; without one it says nothing.
        parts[name] = _plain(parts.get(name, {}), nulls=parts.get("recipe") is not None)
    parts["method"] = parts["method"] or {"name": "smart"}
    config = Config(**parts)
    _check(config)
    return config


def _check_options(prefix: str, given: Mapping[str, Any], group: type) -> None:
    """Refuse unknown names, and values of another type."""
    kinds = {each.name: each.type for each in fields(group)}
    for key, value in given.items():
        if key not in kinds:
            homes = [f"{name}.{key}" for name, kind in GROUPS.items() if key in kind.__dataclass_fields__]
            hint = f"Did you mean {' or '.join(homes)}?" if homes else nearest(key, kinds)
            raise RunError(f"there is no option {prefix}{key}. {hint}")
        if not matches_type(value, kinds[key]):
            raise RunError(f"{prefix}{key}={value}: expected {describe_type(kinds[key])}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise RunError(f"{prefix}{key}={value}: give a finite number.")


# A comparison with a bound, the same in words, and the options it must hold for.
LIMITS = (
    (operator.gt, 0, "must be above 0", [f"train.{name}" for name in ("learning_rate", "epochs", "log_steps")]),
    (operator.gt, 0, "must be above 0", ["train.batch_size", "train.eval_batch_size"]),
    (operator.ge, 1, "must be at least 1", [f"train.{name}" for name in ("max_steps", "micro_batch", "save_steps")]),
    (operator.ge, 1, "must be at least 1", ["train.patience", "data.max_length", "nproc"]),
    (operator.ge, 0, "cannot be negative; below 1 it is a share of all updates", ["train.warmup"]),
    (operator.ge, 0, "cannot be negative", ["train.weight_decay", "train.max_grad_norm"]),
)


def _check(config: Config) -> None:
    check_method(config.method)
    check_reserved("trainer", config.trainer)
    check_reserved("model_config", config.model_config)
    if config.task is None and config.data.train_file is None:
        raise RunError("what to learn? Give --task NAME (see: toughen tasks) or --data.train_file FILE.")
    for holds, least, rule, names in LIMITS:
        for name in names:
            value = operator.attrgetter(name)(config)
            if value is not None and not holds(value, least):
                raise RunError(f"{name}={value}: it {rule}.")
    for name, bare in {"head": "second-order", "peft": "lora"}.items():
        group = getattr(config, name)
        changed = [each.name for each in fields(group) if getattr(group, each.name) != each.default]
        if changed and group.name is None:
            raise RunError(f"{name}.{changed[0]} does nothing without --{name} {bare}; add it, or leave it out.")
    if config.train.shard and config.peft.name:
        raise RunError("train.shard with --peft: adapters are merged into a whole model at the end; leave one out.")
    if config.fast is True and config.data.pad_to_max_length:
        raise RunError("data.pad_to_max_length with --fast: fast steps remove padding; leave one out.")
    rows_per_device(config.train, config.nproc)


def rows_per_device(train: TrainConfig, processes: int) -> tuple[int, int]:
    """Return how many rows of an update, and of a pass, a device gets; refuse sizes that do not divide."""
    share, rest = divmod(train.batch_size, processes)
    if rest:
        raise RunError(
            f"train.batch_size={train.batch_size} does not divide evenly by {processes} processes; choose a multiple."
        )
    micro = min(train.micro_batch or share, share)
    if share % micro:
        raise RunError(f"train.micro_batch={micro} does not divide the {share} rows of a device's share of an update.")
    return share, micro


def plain(config: Config, nulls: bool = False) -> dict[str, Any]:
    """Return the config as nested plain values, without what is left at nothing unless `nulls` are wanted."""
    values = _plain(asdict(config), nulls)
    for group in ("head", "peft"):
        if values[group].get("name") is None and not nulls:
            del values[group]
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _plain(value: object, nulls: bool) -> Any:
    if isinstance(value, Mapping):
        items = value.items()
        return {key: _plain(each, nulls) for key, each in items if nulls or each is not None}
    return list(value) if isinstance(value, tuple) else value


def to_yaml(config: Config) -> str:
    """Return config.yaml: merged and re-runnable. A null of a config with a recipe goes over what the recipe says."""
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
    """Refuse unknown fields and values of another type. Imports torch if anything is given."""
    for key, value in given.items():
        if key not in trainer_options():
            raise RunError(f"transformers.TrainingArguments has no {key!r}. {nearest(key, trainer_options())}")
        if not matches_type(value, kind := trainer_options()[key]):
            raise RunError(f"trainer.{key}={value}: expected {describe_type(kind)}.")


# Keys a run decides itself, and what to use instead.
MODEL_RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("num_labels", "id2label", "label2id", "problem_type"), "the task's labels say it"),
    **dict.fromkeys(("dtype", "torch_dtype"), "use train.precision"),
    **dict.fromkeys(("architectures", "model_type", "auto_map", "return_dict"), "the model's class says it"),
}


def check_reserved(group: str, given: Iterable[str]) -> None:
    """Refuse keys of an open group that a run decides itself."""
    for key in given:
        if group == "trainer" and key in TRAINER_RESERVED:
            raise RunError(f"trainer.{key} is the run's own; use {TRAINER_RESERVED[key]}.")
        if group == "model_config" and key in MODEL_RESERVED:
            raise RunError(f"model_config.{key} cannot be changed: {MODEL_RESERVED[key]}.")
