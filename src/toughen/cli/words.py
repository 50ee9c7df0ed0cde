"""What was typed after `toughen train`: shorthands spelled out, config files and recipes read and merged."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..runs.config import NAMED_GROUPS, DataConfig
from ..runs.config_io import merge, normalised
from ..runs.errors import RunError
from ..runs.strict_yaml import read_yaml

SWITCHES = ("--baseline", "--fast", "--train.keep_checkpoints", "--train.shard")
LISTS = ("--data.labels", "--peft.targets")


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Arguments without config files and recipes, and what those say, merged in their order."""
    rest: list[str] = []
    below: dict[str, Any] = {}
    recipe: str | None = None
    words = iter(spelled_out(arguments))
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in ("--config", "-c", "--recipe"):
            value = value if equals else next(words, "")
            if not value:
                raise RunError(f"{flag} needs a value.")
            if flag == "--recipe":
                recipe = value
            else:
                merge(below, normalised(_config(Path(value))))
        else:
            rest.append(word)
    recipe = recipe or below.pop("recipe", None)
    if recipe is not None:
        below = merge(_recipe(recipe), below)
    return rest, below


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """`--method freelb` as `--method.name freelb`; `--peft` alone is LoRA."""
    out: list[str] = []
    for place, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag.removeprefix("--") in NAMED_GROUPS and flag.startswith("--"):
            out.append(f"{flag}.name{equals}{value}")
            following = arguments[place + 1] if place + 1 < len(arguments) else "--"
            if flag == "--peft" and not equals and following.startswith("-"):
                out.append("lora")
        elif flag in LISTS and equals and "," in value and not value.startswith("["):
            out.append(f"{flag}={_list(value)}")
        elif place and arguments[place - 1] in LISTS and "," in word and not word.startswith("["):
            out.append(_list(word))  # neg,pos is a list as well
        elif word in SWITCHES:
            following = arguments[place + 1] if place + 1 < len(arguments) else "--"
            out.append(f"{word}=true" if following.startswith("-") else word)
        else:
            out.append(word)
    return out


def _list(typed: str) -> str:
    """Words with commas between as a list of text: to YAML yes is true and 007 a number."""
    if typed[0] in "\"'":  # quoted by hand
        return f"[{typed}]"
    return json.dumps([part.strip() for part in typed.split(",") if part.strip()], ensure_ascii=False)


def _recipe(name: str) -> dict[str, Any]:
    from ..recipes import config

    return {**normalised(config(name)), "recipe": name}


def _config(path: Path) -> dict[str, Any]:
    found = read_yaml(path, RunError, "holds no options; a config to edit is written by: toughen init another.yaml")
    if isinstance(found.get("task"), Mapping):
        raise RunError(f"{path} is a ParaGen config; its RTE experiment is --recipe freelb/rte-roberta-base.")
    return found


def data_options(message: str) -> str:
    """Arguments of the Python functions, as their messages name them: `head='classes'` is `--data.head classes`."""
    names = "|".join(each.name for each in fields(DataConfig))
    message = re.sub(rf"\b({names})=(['\"])(.*?)\2", r"--data.\1 \3", message).replace(
        "labels=[...]", "--data.labels A,B"
    )
    return re.sub(
        rf"(?<![\w.])({names})=(?=(\S)?)", lambda m: f"--data.{m[1]}" + " " * ((m[2] or ".") not in ".,;)"), message
    )
