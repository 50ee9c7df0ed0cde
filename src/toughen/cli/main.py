"""`toughen`: finds the command, imports it alone, and turns errors into one line."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

# The first words of `toughen --help`, so that nothing is imported for it. A command not listed here is found too.
COMMANDS = {
    "train": "Fine-tune a model with a robust method.",
    "sweep": "Many settings of a config, on one machine or a cluster.",
    "evaluate": "Score a run or a model on any split or file.",
    "predict": "Predict with a run: text, file or stdin.",
    "report": "One HTML page of a run.",
    "compare": "Runs side by side: means, paired test, cost.",
    "methods": "All methods.",
    "show": "A method's composition, options and presets.",
    "new": "A one-file method to edit.",
    "tasks": "All tasks; fetch their data.",
    "recipes": "Published experiments as configs.",
    "init": "A commented config to edit.",
    "doctor": "What this machine has, and what is amiss.",
    "demo": "A small run, offline.",
    "bench": "Step time and memory of every method, eager and fast.",
    "submit": "GLUE's zip from runs.",
    "push": "Put a model on the Hub (dry run by default).",
}


def available() -> list[str]:
    """The commands that are there."""
    package = import_module("toughen.cli.commands")
    found = {module.name for module in iter_modules(package.__path__)}
    return [name for name in COMMANDS if name in found] + sorted(found - set(COMMANDS))


def usage() -> str:
    lines = ["usage: toughen COMMAND [options]", "", "Robust fine-tuning of pretrained transformers.", ""]
    lines += [f"  {name:<10} {COMMANDS.get(name, '')}".rstrip() for name in available()]
    return "\n".join([*lines, "", "toughen COMMAND --help tells more.", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        try:
            return _main(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()  # a reader that is gone is noticed here, and not at the interpreter's end
    except BrokenPipeError:  # | head has read enough; rich leaves with the same code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:  # training and sweeps stop in order and say so themselves; this is all the rest
        sys.stderr.write("toughen: interrupted\n")
        return 130


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0
    if words[0] in ("-V", "--version", "version"):
        from .._version import __version__

        sys.stdout.write(f"toughen {__version__}\n")
        return 0
    name, *rest = words
    if name not in available():
        from ..errors import nearest

        sys.stderr.write(f"toughen: there is no command {name!r}. {nearest(name, available())}\n")
        return 2
    command: Any = None
    try:
        command = import_module(f"toughen.cli.commands.{name}")
        return run(command, name, rest)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("TOUGHEN_DEBUG"):
            raise
        return report_error(error, getattr(command, "FLAGS", {}))


def run(command: Any, name: str, rest: Sequence[str]) -> int:
    """Parse a command's arguments and run it. A command that parses by itself has `main(rest)`."""
    if hasattr(command, "main"):
        return int(command.main(rest))
    from .arguments import OneLineErrorParser

    parser = OneLineErrorParser(f"toughen {name}", description=command.HELP, allow_abbrev=False)
    command.add(parser)
    return int(command.run(parser.parse_args(rest)))


def report_error(error: Exception, flags: Mapping[str, str]) -> int:
    """Print a known error as one line, with its options as flags, and return the exit code; raise the others again."""
    from ..errors import MethodError, SiteError, StepError
    from ..runs.errors import Diverged
    from ..tasks import DataError

    # DataError, RunError and MethodError are ValueErrors, and so is what transformers says of bad settings.
    known = (ValueError, MethodError, SiteError, StepError, ImportError, OSError)
    if not isinstance(error, (*known, Diverged)):
        raise error
    message = str(error)
    if flags and (isinstance(error, DataError) or getattr(error, "options", ())):
        from .arguments import write_flags

        message = write_flags(error, flags)
    sys.stderr.write(f"toughen: {' '.join(message.split())}\n")
    return 1 if isinstance(error, Diverged) else 2


if __name__ == "__main__":
    sys.exit(main())
