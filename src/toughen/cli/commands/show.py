"""`toughen show`."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

HELP = "A method's composition, options and presets: toughen show smart [--method.weight 5]."


def main(arguments: Sequence[str]) -> int:
    """The method's name, then any of its options, with or without `--method.` in front."""
    from jsonargparse import ArgumentParser

    from ...runs.method_config import NO_DEFAULT, describe_method, make_method, missing_options, options_of, parts_of
    from ..parser import HintingParser, add_options

    words = [word for word in arguments if word not in ("-h", "--help")]
    if not words or words[0].startswith("-"):
        sys.stdout.write(f"usage: toughen show METHOD [--OPTION VALUE ...]\n\n{HELP}\n")
        return 0 if len(words) < len(arguments) else 2
    name, *rest = words
    options = options_of(name)
    parser: ArgumentParser = HintingParser(prog="toughen show", allow_abbrev=False, exit_on_error=False)
    add_options(parser, options)
    values: dict[str, Any] = parser.parse_args([_full(word) for word in rest]).as_dict().get("method") or {}
    method = {"name": name, **values}
    described = [describe_method(part) for part, _ in parts_of(name)]
    lines = [f"{each.name}: {each.doc}" for each in described]
    lines += ["", "Options:"] if options else []
    wide = max(map(len, options), default=0)
    for key, (_, option) in options.items():
        default = "" if option.default is None else f" (default {option.default})"
        default = " (must be given)" if option.default is NO_DEFAULT else default
        lines.append(f"  --method.{key:<{wide}} {option.help}{default}")
    missing = [f"--method.{key}" for key in missing_options(method)]
    shown = [f"  give {', '.join(missing)} to see it"] if missing else composition(make_method(method))
    lines += ["", "Composition:", *shown, ""]
    sys.stdout.write("\n".join(lines))
    return 0


def _full(word: str) -> str:
    return f"--method.{word[2:]}" if word.startswith("--") and not word.startswith("--method.") else word


def composition(made: Any) -> list[str]:
    """The parts of a method, one a line; of a sum, those of each."""
    methods = getattr(made, "methods", (made,))
    lines: list[str] = []
    for method in methods:
        lines += [f"  {type(method).__name__}("]
        shown = {each.name: getattr(method, each.name) for each in fields(method) if each.repr}
        lines += [f"    {name}={value!r}," for name, value in shown.items() if value is not None]
        lines.append("  )")
    return lines
