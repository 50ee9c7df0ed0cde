"""Find the method and strength for a task on held-out training rows; train it beside plain training.

Any option of toughen train goes with it; --seed names the seeds of the last two trainings.

Examples:
  toughen tune --model roberta-base --task rte
  toughen tune --model roberta-base --data.train_file reviews.csv --for typos --minutes 60
  toughen tune --model roberta-base --task rte --methods "vat preset=robust; freelb max_norm=0.01" --seed 1,2,3
"""

from collections.abc import Sequence
from pathlib import Path

from ...errors import UsageError
from ...runs.config_io import merge
from ...runs.errors import Interrupted
from ...sweeps import SweepStopped
from ..arguments import DATA_FLAGS, CommandParser
from ..parser import parse_flags, split_arguments
from ..tables import print_table

_OWN = ("trials", "minutes", "methods", "synonyms")
FLAGS = {**DATA_FLAGS, "threat": "--for", **{name: f"--{name}" for name in _OWN}}


def make_parser() -> CommandParser:
    """Return the parser of tune's own options; all others are those of `toughen train`."""
    parser = CommandParser("toughen tune", description=__doc__)
    option = parser.add_argument_group("What to look for").add_argument
    option("--for", dest="threat", default="all", metavar="THREAT", help="clean, embedding, typos, words or all.")
    option("--methods", help='Methods to try, in place of the list: "vat preset=robust; freelb max_norm=0.01".')
    option("--synonyms", help="JSON file or folder of WordNet to take words from (default: an installed WordNet).")
    option("--selection_share", type=float, default=0.2, help="Share of the training rows to choose on.")
    option = parser.add_argument_group("How long").add_argument
    option("--trials", type=int, default=16, help="Settings to try; half of them are plain training's own.")
    option("--minutes", type=float, help="Begin no trial if the rest would take longer than this.")
    parser.add_argument("--output_dir", help="Folder of everything (default: tunes/TASK-FOR-TIME).")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="Go on with an interrupted search.")
    parser.add_argument("--engine", choices=("auto", "ray", "serial"), default="auto", help="auto: ray, if installed.")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Parse, search, and print the two final lines. The sentence with the result is printed by the search itself."""
    options, rest = make_parser().parse_known_args(arguments or ["--help"])
    given = split_arguments(rest)
    if given.print_config or given.method:
        raise UsageError("tune chooses the method; leave out --method, or name those to try with --methods.")
    if options.resume and rest:
        raise UsageError(f"--resume uses the search's own options; leave out {' '.join(rest)}.")
    from ...tuning.api import tune

    try:
        done = tune(**vars(options), config=merge(given.config, parse_flags(given.words, None)))
    except (SweepStopped, Interrupted):
        return 130  # the search has said how to go on
    rows = [
        [each.name, f"{each.learning_rate:g}", _scores(each.clean), _scores(each.robust or ()), f"{each.seconds:.0f} s"]
        for each in done.lines
    ]
    print_table(["method", "learning rate", "clean", done.threat, "time"], rows)
    return 0


def _scores(values: Sequence[float]) -> str:
    """Return the mean and the standard deviation of a sample."""
    from ...statistics import summarise

    return str(summarise(values)) if values else "-"
