"""List all methods: what each is, its cost and its presets.

Examples:
  toughen methods
  toughen methods --names
  toughen methods | grep dropout
"""

import argparse

from ...registry import create_method, list_methods
from ...runs.method_config import cost_of, describe_methods
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--names", action="store_true", help="Only the names, one a line.")


def run(arguments: argparse.Namespace) -> int:
    if arguments.names:
        say("\n".join(list_methods()))
        return 0
    lines = [f"{'method':<11} {'cost':>4}  what it is"]
    for name, described in describe_methods().items():
        presets = [preset for preset in described.presets if preset != "recommended"]
        more = f" [{', '.join(presets)}]" if presets else ""
        lines.append(f"{name:<11} {cost_of(create_method(name)):>4.1f}  {described.title.rstrip('.')}{more}")
    lines += ["", "cost: a step in units of a plain one. [presets]: --method.preset NAME. Sums: --method smart+rdrop."]
    say("\n".join([*lines, "More of one: toughen describe NAME"]))
    return 0
