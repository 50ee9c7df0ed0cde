"""Try many settings of a config, each with several seeds: on one machine, or on a Ray cluster.

Any option of toughen train goes over the base.

Examples:
  toughen sweep sweep.yaml
  toughen sweep sweep.yaml --model roberta-large --train.epochs 3 --seeds 1,2,3
  toughen sweep sweeps/sweep --resume
"""

from collections.abc import Sequence

from ... import sweeps
from .. import say
from ..arguments import DATA_FLAGS, CommandParser
from ..parser import parse_flags, split_arguments
from ..tables import print_table

FLAGS = DATA_FLAGS


def main(arguments: Sequence[str]) -> int:
    """Parse, run, and print the result. Options of `toughen train` go over the base."""
    parser = CommandParser("toughen sweep", description=__doc__)
    parser.add_argument(
        "source", metavar="SWEEP", help="Sweep file (YAML, or ManyTasks' search.json), recipe, or a sweep's folder."
    )
    parser.add_argument("--resume", action="store_true", help="Go on with the sweep; runs only what is missing.")
    parser.add_argument("--base", help="Config file or recipe in place of the file's base.")
    parser.add_argument("--seeds", help="In place of the file's seeds: 1,2,3.")
    parser.add_argument("--output_dir", help="Folder of the sweep (default: sweeps/NAME).")
    parser.add_argument(
        "--engine",
        choices=("auto", "ray", "serial"),
        default="auto",
        help="What runs the trials: auto is ray, if it is installed.",
    )
    parser.add_argument("--address", help="A Ray cluster: host:port, or auto on one of its machines.")
    options, rest = parser.parse_known_args(arguments)
    given = split_arguments(rest)
    if given.config or given.print_config:
        raise sweeps.SweepError("--config, --recipe and --print_config are options of toughen train; give --base here.")
    try:
        # The methods are in the file: its options are checked with the settings.
        return _print_summary(sweeps.sweep(**vars(options), config=parse_flags(given.words, None)))
    except sweeps.SweepStopped as stopped:
        say(stopped)
        return 130


def _print_summary(done: "sweeps.Sweep") -> int:
    from ...sweeps.leaderboard import shown

    keys, seeds = done.definition.keys, len(done.definition.seeds)
    rows: list[list[str]] = []
    for row in done.rows:
        settings = [shown(row.settings.get(key)) for key in keys]
        rows.append([shown(row.rank), *settings, str(row).partition(" (")[0], f"{len(row.scores)}/{seeds}", row.state])
    print_table(["rank", *keys, done.metric, "seeds", "state"], rows, folds=range(1, len(keys) + 1))
    for number, errors in done.failures.items():
        for error in errors:
            say(f"row {number}, {error}")
    best = "; best.yaml" if done.rows and done.rows[0].state == "done" else ""
    say(f"{done}\nsaved {done.path}/leaderboard.html, .md, .csv{best}")
    return 1 if done.failures else 0
