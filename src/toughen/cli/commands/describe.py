"""Show a method's composition, options and presets: toughen describe smart [--method.weight 5]."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from .. import say
from ..arguments import CommandParser


def main(arguments: Sequence[str]) -> int:
    """Print a method; its options may be given with or without `--method.` in front."""
    from ...runs.method_config import NO_DEFAULT, describe_method, make_method, missing_options, options_of, parts_of
    from ..parser import OptionsParser, add_options

    first = CommandParser("toughen describe", usage="%(prog)s METHOD [--OPTION VALUE ...]", description=__doc__)
    first.add_argument("name", metavar="METHOD", help="a name, a sum a+b, or ./file.py:name")
    given, rest = first.parse_known_args(arguments)
    name = given.name
    options = options_of(name)
    parser = OptionsParser(prog="toughen describe")
    add_options(parser, options)
    words = [f"--method.{word[2:]}" if re.match(r"--(?!method\.)", word) else word for word in rest]
    values: dict[str, Any] = parser.parse_args(words).as_dict().get("method") or {}
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
    say("\n".join([*lines, "", "Composition:", *shown]))
    return 0


def composition(method_or_sum: Any) -> list[str]:
    """Return the parts of a method, one a line; of a sum, those of each."""
    methods = getattr(method_or_sum, "methods", (method_or_sum,))
    lines: list[str] = []
    for method in methods:
        lines += [f"  {type(method).__name__}("]
        shown = {each.name: getattr(method, each.name) for each in fields(method) if each.repr}
        lines += [f"    {name}={value!r}," for name, value in shown.items() if value is not None]
        lines.append("  )")
    return lines
