"""Fine-tune a model with a robust method."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from ...runs.errors import Interrupted, RunError
from ...runs.folder import RunFolder
from ...runs.results import SeedSummary
from .. import say
from ..arguments import DATA_FLAGS, CommandParser
from ..old_flags import predict_commands
from ..parser import parse_train

FLAGS = DATA_FLAGS
QUICK: Mapping[str, Any] = {"radii": (0.02,), "steps": 5}
QUICK_ROWS = 200


def main(arguments: Sequence[str]) -> int:
    """Parse, make the run folder, train here or in several processes, and say what to do next."""
    if commands := predict_commands(arguments):
        from . import predict

        parser = CommandParser("toughen predict")
        predict.add(parser)
        for words in commands:
            say(f"--do_test without --do_train is now: toughen predict {' '.join(map(quote, words))}")
            predict.run(parser.parse_args(words))
        return 0
    resume = any(word.partition("=")[0] == "--resume" for word in arguments)
    folder, launch = _parse_resume(arguments) if resume else _new_run(arguments or ["--help"])
    from ...runs import launch as runs

    try:
        (runs.launch if resume else runs.launch_new)(folder, **launch)
    except Interrupted as stopped:
        say(f"{stopped}\ncontinue with: toughen train --resume {quote(str(folder))}")
        return 128 + stopped.signal
    if launch["node_rank"] == 0:
        print_summary(folder)
        if folder.results().baseline:
            decide(folder)
    return 0


def _new_run(arguments: Sequence[str]) -> tuple[RunFolder, dict[str, Any]]:
    """Return the folder of a new run, which the first machine makes, and on which machines to train."""
    config, launch = parse_train(arguments)
    _check_machines(launch, config.output_dir)
    from ...runs.launch import wait_for_config

    if config.output_dir and launch["node_rank"]:
        return wait_for_config(RunFolder(config.output_dir)), launch
    return RunFolder.create(config), launch


def _parse_resume(arguments: Sequence[str]) -> tuple[RunFolder, dict[str, Any]]:
    """Return the run to go on with, which brings all other options, and on which machines."""
    parser = CommandParser("toughen train", add_help=False)
    parser.add_argument("--resume")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--rdzv_endpoint")
    given, rest = parser.parse_known_args(arguments)
    if rest:
        raise RunError(f"--resume uses the run's own config.yaml; leave out {' '.join(rest)}.")
    launch = vars(given)
    folder = RunFolder(launch.pop("resume"))
    folder.config()
    _check_machines(launch, str(folder))
    return folder, launch


def _check_machines(launch: dict[str, Any], output_dir: str | None) -> None:
    if launch["nnodes"] > 1 and (output_dir is None or launch["rdzv_endpoint"] is None):
        raise RunError("several machines need --output_dir (a folder that all of them see) and --rdzv_endpoint.")
    if not 0 <= launch["node_rank"] < launch["nnodes"]:
        raise RunError(
            f"--node_rank {launch['node_rank']}: it must be 0 to {launch['nnodes'] - 1} (--nnodes less one)."
        )


def decide(folder: RunFolder) -> None:
    """Attack every seed and its plain baseline on a few rows, write the page again and print what to take."""
    from ... import evaluation, reports
    from ...reports.verdict import verdict
    from ...runs.progress import silence_libraries

    say(f"a quick attack on both (PGD on the embeddings, at most {QUICK_ROWS} rows):")
    split, settings = folder.config().data.eval_split, evaluation.AttackSettings(**QUICK)
    options: dict[str, Any] = {"split": split, "limit": QUICK_ROWS, "settings": settings, "progress": True}
    try:
        with silence_libraries():
            evaluation.evaluate(folder, all_seeds=True, attack="embedding", **options)
            if (folder.path / "report.html").is_file():
                reports.report(folder)
    except KeyboardInterrupt:
        say("the attack was interrupted; the training is complete")
    except (ValueError, RuntimeError, OSError) as error:  # the training is done, whatever the attack finds
        say(f"! no quick attack: {' '.join(str(error).split())}")
    (table,) = reports.compare_runs([reports.read_run(folder)])
    if found := verdict(table):
        from ..tables import print_table

        rows = [
            [each.name + f" ({each.metric})" * (each.metric != table.metric), *each.scores, each.difference]
            for each in (found.clean, *found.attacked)
        ]
        rows += [["time of a step", "1.0x", f"{found.cost:.1f}x", ""]] if found.cost else []
        print_table([table.metric, found.reference, found.method, "difference"], rows)
        say(f"decision: {found.decision}.")
    say(f"more: toughen evaluate {quote(str(folder))} --all_seeds --attack all")


def print_summary(folder: RunFolder) -> None:
    """Print every seed, the plain baseline, where it is saved and what to do next."""
    results = folder.results()
    plain, method, test = results.baseline, results.method.name, f"test_{results.metric}"

    def change(name: str, plain: SeedSummary) -> str:
        return f"{method} {results.mean[name] - plain.mean[name]:+.4f}"

    say(results)
    if plain:
        say(f"plain: {plain.score(results.metric)} · {change(results.metric, plain)}")
    if test in results.mean:
        beside = f" (plain {plain.mean[test]:.4f}, {change(test, plain)})" if plain and test in plain.mean else ""
        say(f"{test}: {results.score(test)}{beside}")
    began = folder.manifest()
    flags = "--text ... --text_pair ..." if len(began.columns) == 2 else "--text ..."
    flags = "--file ..." if began.head == "choices" else flags
    page, run = " (report.html)" if (folder.path / "report.html").is_file() else "", quote(str(folder))
    say(f"saved {folder}/{page}\nnext: toughen predict {run} {flags} · toughen evaluate {run}")
