"""`toughen sweep FILE`."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..arguments import DATA_FLAGS

HELP = "Try many settings of a config, each with several seeds: on one machine, or on a Ray cluster."
FLAGS = DATA_FLAGS


def main(arguments: Sequence[str]) -> int:
    """Parse, run, and print the result. Options of `toughen train` go over the base."""
    from ..arguments import OneLineErrorParser

    parser = OneLineErrorParser("toughen sweep", description=HELP, allow_abbrev=False, epilog=EPILOG)
    parser.add_argument("source", help="sweep file (YAML, or ManyTasks' search.json), recipe, or a sweep's folder")
    parser.add_argument("--resume", action="store_true", help="go on with the sweep; runs only what is missing")
    parser.add_argument("--base", help="config file or recipe in place of the file's base")
    parser.add_argument("--seeds", help="in place of the file's seeds: 1,2,3")
    parser.add_argument("--output_dir", help="folder of the sweep (default: sweeps/NAME)")
    parser.add_argument(
        "--engine", choices=("auto", "ray", "serial"), default="auto", help="default: ray, if installed"
    )
    parser.add_argument("--address", help="a Ray cluster: host:port, or auto on one of its machines")
    given, rest = parser.parse_known_args(list(arguments))

    from ...sweeps import SweepStopped, sweep

    options = {key: getattr(given, key) for key in ("resume", "base", "seeds", "output_dir", "engine", "address")}
    try:
        return _print_summary(sweep(given.source, config=_parse_overrides(rest), **options))
    except SweepStopped as stopped:
        sys.stdout.write(f"{stopped}\n")
        return 130


EPILOG = "Any option of toughen train goes over the base: toughen sweep grid.yaml --model roberta-base --train.epochs 3"


def _parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """`--train.epochs 3` as {"train.epochs": 3}; unknown options are refused with the config."""
    from ...sweeps import SweepError
    from ..arguments import expand_shorthands

    found: dict[str, Any] = {}
    left = expand_shorthands(words)
    while left:
        flag, equals, value = left.pop(0).partition("=")
        if not flag.startswith("--") or (not equals and (not left or left[0].startswith("--"))):
            raise SweepError(f"{flag}: expected --option VALUE, as of toughen train.")
        found[flag.removeprefix("--")] = _value(flag, value if equals else left.pop(0))
    return found


def _value(flag: str, text: str) -> Any:
    """The value of an option: as it stands where that is text (a path, a delimiter), else what YAML makes of it."""
    import yaml

    from ...runs.config import GROUPS, Config, matches_type
    from ...sweeps import SweepError

    group, _, name = flag.removeprefix("--").rpartition(".")
    home = GROUPS.get(group) if group else Config
    kinds = {each.name: each.type for each in fields(home)} if home else {}
    if name in kinds and text != "null" and matches_type(text, kinds[name]):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise SweepError(f"{flag} {text}: it is neither a number nor a text nor a list in YAML; quote it.") from None


def _print_summary(done: Any) -> int:
    from ..tables import console, table

    out, heads = console(), [*done.definition.keys, done.metric, "seeds", "state"]
    rows = [_cells(done, row) for row in done.rows]
    out.print(table(["rank", *heads], rows, folds=range(1, len(heads) - 2)))
    for number, errors in done.failures.items():
        for error in errors:
            out.print(f"row {number}, {error}", markup=False, soft_wrap=True)
    best = "; best.yaml" if done.rows and done.rows[0].state == "done" else ""
    out.print(f"{done}\nsaved {done.path}/leaderboard.html, .md, .csv{best}", markup=False, soft_wrap=True)
    return 1 if done.failures else 0


def _cells(done: Any, row: Any) -> list[str]:
    from ...sweeps.leaderboard import shown

    score = str(row).partition(" (")[0]
    settings = [shown(row.settings.get(key)) for key in done.definition.keys]
    return [shown(row.rank), *settings, score, f"{len(row.scores)}/{len(done.definition.seeds)}", row.state]
