"""`toughen train`."""

import sys
from collections.abc import Sequence
from shlex import quote
from typing import Any

from ..arguments import DATA_FLAGS

HELP = "Fine-tune a model with a robust method."
FLAGS = DATA_FLAGS


def main(arguments: Sequence[str]) -> int:
    """Parse, make the run folder, train here or in several processes, and say what to do next."""
    from ..old_flags import translate
    from ..parser import parse_train

    words, notices = translate(arguments)
    for notice in notices:
        sys.stderr.write(f"toughen: {notice}\n")
    if not words:
        words = ["--help"]
    resumed = _resumed(words)
    if resumed is not None:
        return _run(*resumed, new=False)
    config, launch = parse_train(words)
    return _run(_created(config, launch), launch, new=True)


def _resumed(words: Sequence[str]) -> tuple[Any, dict[str, Any]] | None:
    """The run to go on with, and on which machines; it brings all other options."""
    import argparse

    from ...runs.errors import RunError
    from ...runs.folder import RunFolder

    if not any(word.partition("=")[0] == "--resume" for word in words):
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--resume")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--rdzv_endpoint")
    try:
        found, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        needs = "--resume needs the run's folder." if error.argument_name == "--resume" else f"{error}."
        raise RunError(needs) from None
    if rest:
        raise RunError(f"--resume goes on with the run's own config.yaml; leave out {' '.join(rest)}.")
    launch = vars(found)
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


def _created(config: Any, launch: dict[str, Any]) -> Any:
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
        sys.stdout.write(f"{stopped}\ncontinue with: toughen train --resume {quote(str(folder))}\n")
        return 128 + stopped.signal
    if launch["node_rank"] == 0:
        print_summary(folder)
    return 0


def print_summary(folder: Any) -> None:
    """Every seed, the plain twin, where it is saved and what to do next."""
    results = folder.results()
    lines = [str(results)]
    if results.baseline:
        plain, name = results.baseline, results.metric
        spread = f" ± {plain.sd[name]:.4f}" if len(plain.seeds) > 1 else ""
        change = results.mean[name] - plain.mean[name]
        lines.append(f"plain: {plain.mean[name]:.4f}{spread} · {results.method.name} {change:+.4f}")
    lines += [_score_line(results, name) for name in (f"test_{results.metric}",) if name in results.mean]
    page = " (report.html)" if (folder.path / "report.html").is_file() else ""
    run = quote(str(folder))
    lines += [
        f"saved {folder}/{page}",
        f"next: toughen predict {run} {_predict_flags(folder)} · toughen evaluate {run}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _score_line(results: Any, name: str) -> str:
    """A further score, over all seeds, beside the plain twin's."""
    spread = f" ± {results.sd[name]:.4f}" if len(results.seeds) > 1 else ""
    plain = results.baseline.mean.get(name) if results.baseline else None
    change = "" if plain is None else f" (plain {plain:.4f}, {results.method.name} {results.mean[name] - plain:+.4f})"
    return f"{name}: {results.mean[name]:.4f}{spread}{change}"


def _predict_flags(folder: Any) -> str:
    """What `toughen predict` needs to be given for this run."""
    began = folder.manifest()
    if began.head == "choices":
        return "--file ..."
    return "--text ... --text_pair ..." if len(began.columns) == 2 else "--text ..."
