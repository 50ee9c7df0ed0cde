"""The parser of every command, and errors that name flags."""

import argparse
import difflib
import re
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from ..errors import UsageError
from ..runs.config import DataConfig
from ..runs.errors import RunError

# The arguments of `toughen.tasks.load` as flags of `toughen train`, by their names in messages.
DATA_FLAGS: Mapping[str, str] = {each.name: f"--data.{each.name}" for each in fields(DataConfig)}


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of at most 100 columns; each option once, with the default it has."""

    def __init__(self, prog: str, **_settings: Any) -> None:
        super().__init__(prog, max_help_position=30, width=min(100, shutil.get_terminal_size().columns))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines() if "\n" in text else textwrap.wrap(text, width)  # examples stay as they are
        return "\n".join(f"{indent}{line}" for line in lines)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Show the arguments that a command needs: its options are listed below, in groups."""
        several = {"+": "{0} [{0} ...]", "*": "[{0} ...]", "?": "[{0}]"}
        needed = [
            several.get(str(each.nargs), "{0}").format(each.metavar or each.dest.upper())
            for each in actions
            if not each.option_strings
        ]
        super().add_usage(usage or " ".join(["%(prog)s", *needed, "[options]"]), actions, groups, prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(name for name in action.option_strings if not name.endswith("+"))  # --x+ adds to a list
        value = "" if action.nargs == 0 else self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{names} {value}".rstrip()

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        if not action.option_strings or "default" in text or default in (None, False, [], (), "", argparse.SUPPRESS):
            return text
        shown = ",".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)
        return f"{text} (default: {shown.replace('%', '%%')})"


class CommandParser(argparse.ArgumentParser):
    """Raises `UsageError` in one line, with the nearest option, where argparse prints the usage and exits.

    A description may end with examples, under "Examples:"; help shows them last.
    """

    def __init__(self, *names: Any, description: str | None = None, **settings: Any) -> None:
        purpose, found, examples = (description or "").partition("\n\nExamples:\n")
        texts = {"description": purpose, "epilog": f"Examples:\n{examples.rstrip()}"} if found else {}
        settings = {"formatter_class": HelpFormatter, "description": description, **settings, **texts}
        super().__init__(*names, allow_abbrev=False, **settings)
        self._positionals.title, self._optionals.title = "Arguments", "Options"
        for action in self._actions:
            if isinstance(action, argparse._HelpAction):  # pyright: ignore[reportPrivateUsage]
                action.help = "Show this help and exit."

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split()).removesuffix(".")
        hint = f"See: {self.prog} --help"
        if unknown := re.match(r"unrecognized arguments:.*?(--[\w.-]+)", message, re.IGNORECASE):
            shown = [each for each in self._actions if each.help != argparse.SUPPRESS]
            flags = [flag for action in shown for flag in action.option_strings]
            if near := difflib.get_close_matches(unknown[1], flags, n=2):
                hint = f"Did you mean {' or '.join(near)}?"
        raise UsageError(f"{message}. {hint}")


def add_rows(parser: argparse.ArgumentParser, task: str, limit: int | None = None) -> None:
    """Add the options that choose and read the rows of an evaluation; `task` says what another set is for."""
    option = parser.add_argument_group("Rows", "A run knows its own; these choose others.").add_argument
    option("--file", help="Rows with labels: CSV, TSV, Excel, JSON, JSONL, Parquet, CoNLL.")
    option("--task", help=task)
    option("--dir", help="Folder of sets on disk.")
    option("--split", default="validation", help="The part of the set: train, validation or test.")
    option("--text_column", help="Column of the text in a file, or two with a comma.")
    option("--label_column", help="Column of the label in a file.")
    option("--delimiter", help="Delimiter of a table; inferred if omitted.")
    option("--encoding", help="Encoding of a file that is not UTF-8, such as cp1252.")
    option("--on_bad", choices=("error", "skip"), help="Rows that cannot be used: stop, or leave them out.")
    option("--limit", type=int, default=limit, help="At most so many rows; the names of files and lines say so.")
    option("--max_length", type=int, help="Tokens a text is cut at.")
    option("--batch_size", type=int, help="Rows of one pass (default: 64; attacks on a GPU: 2048).")
    option("--samples", type=int, default=1000, help="Bootstrap samples of an interval.")


def split_names(text: str) -> list[str]:
    """Return names with commas between them as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def check_new(path: Path, remedy: str = "choose another name") -> None:
    """Refuse to overwrite what is at a path."""
    if path.exists():
        raise RunError(f"{path} already exists; {remedy}.")


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
