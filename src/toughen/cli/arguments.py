"""What was typed after `toughen train`: shorthands spelled out, config files and recipes read and merged."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from ..errors import UsageError, nearest
from ..runs.config import NAMED_GROUPS, DataConfig
from ..runs.config_io import merge, normalised, read_yaml
from ..runs.errors import RunError

SWITCHES = ("--baseline", "--fast", "--train.keep_checkpoints", "--train.shard")
LISTS = ("--data.labels", "--peft.targets")
KINDS = {"int": "a whole number", "float": "a number", "numbers": "numbers with commas between them", "Path": "a path"}
# The arguments of `toughen.tasks.load` as flags of `toughen train`, by their names in messages.
DATA_FLAGS: Mapping[str, str] = {each.name: f"--data.{each.name}" for each in fields(DataConfig)}


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Arguments without config files and recipes, and what those say, merged in their order."""
    rest: list[str] = []
    below: dict[str, Any] = {}
    recipe: str | None = None
    words = iter(expand_shorthands(arguments))
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


def expand_shorthands(arguments: Sequence[str]) -> list[str]:
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
    found = read_yaml(
        path, RunError, "holds no options; a config to edit is written by: toughen init-config another.yaml"
    )
    if isinstance(found.get("task"), Mapping):
        raise RunError(f"{path} is a ParaGen config; its RTE experiment is --recipe freelb/rte-roberta-base.")
    return found


def write_flags(error: Exception, flags: Mapping[str, str]) -> str:
    """Return a message with the arguments of Python functions as flags: `head='classes'` is `--data.head classes`.

    `flags` are the command's, by argument; an error that carries `options` is about those alone.
    """
    named = getattr(error, "options", ()) or flags
    names = "|".join(name for name in named if name in flags)
    message = re.sub(r"\b(\w+)= \(--\1\)", r"--\1", str(error))
    if not names:
        return message
    message = message.replace("labels=[...]", "labels= A,B" if "labels" in flags else "labels=[...]")
    message = re.sub(rf"\b({names})=(['\"])(.*?)\2", lambda m: f"{flags[m[1]]} {m[3]}", message)
    message = re.sub(rf"--data\.({names})\b", lambda m: flags[m[1]], message)
    follows = r"(?=(\S)?)"
    return re.sub(
        rf"(?<![\w.])({names})={follows}", lambda m: flags[m[1]] + " " * ((m[2] or ".") not in ".,;)"), message
    )


class OneLineErrorParser(argparse.ArgumentParser):
    """Raises `UsageError` in one line, with the nearest option, where argparse would print the usage and leave."""

    def error(self, message: str) -> NoReturn:
        known = [flag for action in self._actions for flag in action.option_strings]
        unknown = re.match(r"unrecognized arguments: (--[\w.-]+)", message)
        hint = f" {nearest(unknown[1], known)}" if unknown else f" See: {self.prog} --help"
        wrong = re.sub(r"invalid _?(\w+) value: (.*)", lambda m: f"{m[2]} is not {KINDS.get(m[1], m[1])}", message)
        raise UsageError(f"{self.prog.removeprefix('toughen ')}: {wrong}.{hint}")
