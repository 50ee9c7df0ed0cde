"""The parser of every command, config files and recipes below the options, and errors that name flags."""

import argparse
import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ..errors import UsageError
from ..runs.config import NAMED_GROUPS, DataConfig
from ..runs.config_io import merge, normalised, read_yaml
from ..runs.errors import RunError
from .old_flags import add_old_flags, strip_paragen_path, translate

# The arguments of `toughen.tasks.load` as flags of `toughen train`, by their names in messages.
DATA_FLAGS: Mapping[str, str] = {each.name: f"--data.{each.name}" for each in fields(DataConfig)}


class CommandParser(argparse.ArgumentParser):
    """Raises `UsageError` in one line, with the nearest option, where argparse prints the usage and exits."""

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, allow_abbrev=False, **settings)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split()).removesuffix(".")
        hint = f"See: {self.prog} --help"
        if unknown := re.match(r"unrecognized arguments:.*?(--[\w.-]+)", message, re.IGNORECASE):
            shown = [each for each in self._actions if each.help != argparse.SUPPRESS]
            flags = [flag for action in shown for flag in action.option_strings]
            if near := difflib.get_close_matches(unknown[1], flags, n=2):
                hint = f"Did you mean {' or '.join(near)}?"
        raise UsageError(f"{message}. {hint}")


class Given(NamedTuple):
    """The arguments of `toughen train`, read as far as the method's options need not be known."""

    words: list[str]
    """Today's options, with their full names."""
    method: str | None
    config: dict[str, Any]
    """What config files and the recipe say, merged."""
    print_config: bool


def split_arguments(arguments: Sequence[str]) -> Given:
    """Read config files and recipes, and give today's options for shorthands and flags of the original scripts."""
    parser = CommandParser("toughen train", add_help=False)
    parser.add_argument("--config", "-c", action="append", type=Path, default=[])
    parser.add_argument("--recipe")
    parser.add_argument("--print_config", action="store_true")
    for name in NAMED_GROUPS:  # --method freelb is --method.name freelb, and --peft alone is LoRA
        bare: dict[str, Any] = {"nargs": "?", "const": "lora"} if name == "peft" else {}
        parser.add_argument(f"--{name}", f"--{name}.name", **bare)
    add_old_flags(parser)
    given, words = parser.parse_known_args([strip_paragen_path(word) for word in arguments])
    config: dict[str, Any] = {}
    for path in given.config:
        merge(config, normalised(_read_config(path)))
    recipe = given.recipe or config.get("recipe")
    if recipe is not None:
        config = merge(_read_recipe(recipe), {**config, "recipe": recipe})
    has_units = bool(given.config or recipe) or any(word.startswith("--method.preset") for word in words)
    translated, notices = translate(given.old, has_units)
    named = [f"--{name}.name={value}" for name in NAMED_GROUPS if (value := getattr(given, name)) is not None]
    for notice in notices:
        sys.stderr.write(f"toughen: {notice}\n")
    return Given([*named, *translated, *words], given.method, config, given.print_config)


def check_new(path: Path, remedy: str = "choose another name") -> None:
    """Refuse to overwrite what is at a path."""
    if path.exists():
        raise RunError(f"{path} is there already and nothing is overwritten; {remedy}.")


def _read_recipe(name: str) -> dict[str, Any]:
    from ..recipes import config

    return normalised(config(name))


def _read_config(path: Path) -> dict[str, Any]:
    remedy = "holds no options; a config to edit is written by: toughen init-config another.yaml"
    values = read_yaml(path, RunError, remedy)
    if isinstance(values.get("task"), Mapping):
        raise RunError(f"{path} is a ParaGen config; its RTE experiment is --recipe freelb/rte-roberta-base.")
    return values


def write_flags(error: Exception, flags: Mapping[str, str]) -> str:
    """Return a message with arguments of Python functions as flags: `head='classes'` is `--data.head classes`.

    `flags` are the command's, by argument; an error that carries `options` is about those alone.
    """
    names = "|".join(name for name in getattr(error, "options", ()) or flags if name in flags)
    value = r"(?:(['\"])(?P<text>.*?)\3|(?P<list>\[\.\.\.\])|True|(?P<more>(?=[^\s.,;)])))?"
    as_flag = r"(?: \((?P<flag>--[^)]+)\))?"  # file= (--file) names both
    argument = rf"--data\.({names})\b|(?<![\w.])({names})={value}{as_flag}"

    def flag(match: re.Match[str]) -> str:
        after = "A,B" if match["list"] else match["text"]
        written = flags[match[1] or match[2]] + (f" {after or ''}" if after or match["more"] is not None else "")
        return match["flag"] or written

    return re.sub(argument, flag, str(error)) if names else str(error)
