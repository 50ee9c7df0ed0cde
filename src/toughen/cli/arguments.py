"""The parser of every command, and errors that name flags."""

import argparse
import difflib
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from ..errors import UsageError
from ..runs.config import DataConfig
from ..runs.errors import RunError

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


def split_names(text: str) -> list[str]:
    """Return names with commas between them as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def check_new(path: Path, remedy: str = "choose another name") -> None:
    """Refuse to overwrite what is at a path."""
    if path.exists():
        raise RunError(f"{path} is there already and nothing is overwritten; {remedy}.")


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
