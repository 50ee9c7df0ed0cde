"""`toughen`: find the command, import it alone, and turn errors into one line."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

# `toughen --help` prints these without an import; the docstring of each command's module says more.
GROUPS = {
    "Train": {
        "train": "Fine-tune a model with a robust method.",
        "tune": "Find the method and strength for a task, and train it.",
        "harden": "Make an encoder keep its vectors when words are misspelt.",
        "sweep": "Train with many settings of a config, on one machine or a cluster.",
        "demo": "Train a plain and a robust model, offline.",
    },
    "Judge": {
        "scan": "Measure how robust any model is, without training.",
        "evaluate": "Score a run or a model on any split or file, also under attack.",
        "compare": "Compare runs: means, paired tests, cost.",
        "report": "Write one HTML page of a run, or of several.",
        "bench": "Time every method, eager and fast, and measure its memory.",
    },
    "Use a trained model": {
        "predict": "Predict with a run: text, file or stdin.",
        "submit": "Write GLUE's zip from runs.",
        "push": "Put a model on the Hub (dry run by default).",
    },
    "Look up": {
        "methods": "List all methods.",
        "describe": "Show a method's composition, options and presets.",
        "tasks": "List all tasks; fetch their data.",
        "recipes": "Show published experiments as configs.",
        "cite": "Print the BibTeX entries of methods.",
        "env": "Show what this machine has, and the problems found.",
    },
    "Begin a file": {
        "init-config": "Write a commented config to edit.",
        "new-method": "Write a one-file method to edit.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
EXAMPLES = """Examples:
  toughen train --model roberta-base --data.train_file reviews.csv --method vat --baseline
  toughen evaluate runs/reviews-vat --attack characters,embedding --all_seeds
  toughen report runs/reviews-vat
"""
RENAMED = {"show": "describe", "new": "new-method", "init": "init-config", "doctor": "env"}


def usage() -> str:
    lines = [
        "usage: toughen COMMAND [options]",
        "",
        "Fine-tune pretrained transformers so that small changes do not fool them.",
    ]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<12} {text}" for name, text in group.items())]
    return "\n".join([*lines, "", EXAMPLES, "Options and examples of a command: toughen COMMAND --help", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        try:
            return _main(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()  # a closed pipe is noticed here, and not at the interpreter's end
    except BrokenPipeError:  # `| head` has read enough; rich exits with the same code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:  # training and sweeps handle it themselves; this is for all the rest
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
    if name in RENAMED:
        sys.stderr.write(f"toughen: {name} is now {RENAMED[name]}; the old name still works.\n")
        name = RENAMED[name]
    if name not in COMMANDS:
        from ..errors import nearest

        sys.stderr.write(f"toughen: there is no command {name!r}. {nearest(name, COMMANDS)}\n")
        return 2
    command: Any = None
    try:
        command = import_module(f"toughen.cli.commands.{name.replace('-', '_')}")
        if hasattr(command, "main"):  # it parses by itself
            return int(command.main(rest))
        from .arguments import CommandParser

        parser = CommandParser(f"toughen {name}", description=command.__doc__)
        command.add(parser)
        return int(command.run(parser.parse_args(rest)))
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("TOUGHEN_DEBUG"):
            raise
        return report_error(error, getattr(command, "FLAGS", {}))


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
