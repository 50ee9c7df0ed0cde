"""Show a method's composition, options and presets.

Options may be given with or without --method in front.

Examples:
  toughen describe smart
  toughen describe vat --preset robust
  toughen describe smart+bregman --method.smart.weight 5
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ...runs import method_config as config
from .. import say
from ..arguments import CommandParser
from ..parser import OptionsParser, add_options

if TYPE_CHECKING:
    from ...method import Method, MethodSum


def main(arguments: Sequence[str]) -> int:
    """Print a method; its options may be given with or without `--method.` in front."""
    first = CommandParser("toughen describe", usage="%(prog)s METHOD [--OPTION VALUE ...]", description=__doc__)
    first.add_argument("name", metavar="METHOD", help="A name, a sum a+b, or ./file.py:name.")
    given, rest = first.parse_known_args(arguments)
    options = config.options_of(given.name)
    parser = OptionsParser(prog="toughen describe")
    add_options(parser, options)
    words = [f"--method.{word[2:]}" if re.match(r"--(?!method\.)", word) else word for word in rest]
    values: dict[str, Any] = parser.parse_args(words).as_dict().get("method") or {}
    method = {"name": given.name, **values}
    described = [config.describe_method(part) for part, _ in config.parts_of(given.name)]
    lines = [f"{each.name}: {each.doc}" for each in described]
    lines += ["", "Options:"] if options else []
    wide = max(map(len, options), default=0)
    for key, (_, option) in options.items():
        default = "" if option.default is None else f" (default {option.default})"
        default = " (must be given)" if option.default is config.NO_DEFAULT else default
        lines.append(f"  --method.{key:<{wide}} {option.help}{default}")
    missing = [f"--method.{key}" for key in config.missing_options(method)]
    shown = [f"  give {', '.join(missing)} to see it"] if missing else composition(config.make_method(method))
    say("\n".join([*lines, "", "Composition:", *shown]))
    return 0


def composition(method: "Method | MethodSum") -> Iterator[str]:
    """Yield the parts of a method, one a line; of a sum, those of each."""
    for each in config.methods_of(method):
        parts = {field.name: getattr(each, field.name) for field in fields(each) if field.repr}
        yield f"  {type(each).__name__}("
        yield from (f"    {name}={part!r}," for name, part in parts.items() if part is not None)
        yield "  )"
