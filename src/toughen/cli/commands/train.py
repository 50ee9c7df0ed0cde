"""Fine-tune a model with a robust method."""

from collections.abc import Sequence
from shlex import quote
from typing import Any

from .. import say
from ..arguments import DATA_FLAGS, CommandParser

FLAGS = DATA_FLAGS


def main(arguments: Sequence[str]) -> int:
    """Parse, make the run folder, train here or in several processes, and say what to do next."""
    from ..parser import parse_train

    if any(word.partition("=")[0] == "--resume" for word in arguments):
        return _run(*_parse_resume(arguments), new=False)
    config, launch = parse_train(arguments or ["--help"])
    return _run(_create_folder(config, launch), launch, new=True)


def _parse_resume(arguments: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the run to go on with, which brings all other options, and on which machines."""
    from ...runs.errors import RunError
    from ...runs.folder import RunFolder

    parser = CommandParser("toughen train", add_help=False)
    parser.add_argument("--resume")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--rdzv_endpoint")
    given, rest = parser.parse_known_args(arguments)
    if rest:
        raise RunError(f"--resume goes on with the run's own config.yaml; leave out {' '.join(rest)}.")
    launch = vars(given)
    folder = RunFolder(launch.pop("resume"))
    folder.config()
    _check_machines(launch, folder)
    return folder, launch


def _check_machines(launch: dict[str, Any], folder: Any) -> None:
    from ...runs.errors import RunError

    if launch["nnodes"] > 1 and (folder is None or launch["rdzv_endpoint"] is None):
        raise RunError("several machines need --output_dir (a folder that all of them see) and --rdzv_endpoint.")
    if not 0 <= launch["node_rank"] < launch["nnodes"]:
        raise RunError(f"--node_rank {launch['node_rank']}: with --nnodes {launch['nnodes']} it starts at 0.")


def _create_folder(config: Any, launch: dict[str, Any]) -> Any:
    from ...runs.folder import RunFolder
    from ...runs.launch import wait_for_config

    _check_machines(launch, config.output_dir)
    if config.output_dir and launch["node_rank"]:
        return wait_for_config(RunFolder(config.output_dir))
    return RunFolder.create(config)


def _run(folder: Any, launch: dict[str, Any], new: bool) -> int:
    from ...runs import launch as runs
    from ...runs.errors import Interrupted

    try:
        (runs.launch_new if new else runs.launch)(folder, **launch)
    except Interrupted as stopped:
        say(f"{stopped}\ncontinue with: toughen train --resume {quote(str(folder))}")
        return 128 + stopped.signal
    if launch["node_rank"] == 0:
        print_summary(folder)
    return 0


def print_summary(folder: Any) -> None:
    """Print every seed, the plain baseline, where it is saved and what to do next."""
    results = folder.results()
    plain, method, test = results.baseline, results.method.name, f"test_{results.metric}"

    def score(variant: Any, name: str) -> str:
        spread = f" ± {variant.sd[name]:.4f}" if len(variant.seeds) > 1 else ""
        return f"{variant.mean[name]:.4f}{spread}"

    def change(name: str) -> str:
        return f"{method} {results.mean[name] - plain.mean[name]:+.4f}"

    say(results)
    if plain:
        say(f"plain: {score(plain, results.metric)} · {change(results.metric)}")
    if test in results.mean:
        beside = f" (plain {plain.mean[test]:.4f}, {change(test)})" if plain and test in plain.mean else ""
        say(f"{test}: {score(results, test)}{beside}")
    page, run = " (report.html)" if (folder.path / "report.html").is_file() else "", quote(str(folder))
    say(f"saved {folder}/{page}\nnext: toughen predict {run} {_predict_flags(folder)} · toughen evaluate {run}")


def _predict_flags(folder: Any) -> str:
    """Return what `toughen predict` needs to be given for this run."""
    began = folder.manifest()
    if began.head == "choices":
        return "--file ..."
    return "--text ... --text_pair ..." if len(began.columns) == 2 else "--text ..."
