"""`toughen train`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HELP = "Fine-tune a model with a robust method."


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
        return _run(resumed, {"nnodes": 1, "node_rank": 0, "rdzv_endpoint": None})
    values, launch = parse_train(words)
    values.pop("resume")
    return _run(_created(values, launch), launch)


def _resumed(words: Sequence[str]) -> Path | None:
    """The run to go on with; it brings its own options."""
    from ...runs.errors import RunError
    from ...runs.folder import read_config

    flags = [word.partition("=")[0] for word in words]
    if "--resume" not in flags:
        return None
    place = flags.index("--resume")
    _, equals, value = words[place].partition("=")
    rest = [*words[:place], *words[place + (1 if equals else 2) :]]
    if not equals:
        value = words[place + 1] if place + 1 < len(words) else ""
    if not value:
        raise RunError("--resume needs the run's folder.")
    if rest:
        raise RunError(f"--resume goes on with the run's own config.yaml; leave out {' '.join(rest)}.")
    read_config(Path(value))
    return Path(value)


def _created(values: dict[str, Any], launch: dict[str, Any]) -> Path:
    from ...runs.configuring import build
    from ...runs.errors import RunError
    from ...runs.folder import create
    from ...runs.launch import joined

    config = build(values)
    if launch["nnodes"] > 1:
        if config.output_dir is None or launch["rdzv_endpoint"] is None:
            raise RunError("several machines need --output_dir (a folder that all of them see) and --rdzv_endpoint.")
        if launch["node_rank"]:
            return joined(Path(config.output_dir))
    return create(config)


def _run(folder: Path, launch: dict[str, Any]) -> int:
    from ...runs.errors import Interrupted
    from ...runs.folder import read
    from ...runs.launch import execute_everywhere

    try:
        execute_everywhere(folder, **launch)
    except Interrupted as stopped:
        sys.stdout.write(f"{stopped}\ncontinue with: toughen train --resume {folder}\n")
        return 128 + stopped.signal
    if launch["node_rank"] == 0:
        page = _page(folder)
        sys.stdout.write(f"{read(folder)}\nsaved {folder}/{page}   next: toughen predict {folder} --text ...\n")
    return 0


def _page(folder: Path) -> str:
    """Write report.html where reports are installed; a page that fails must not make a finished run look failed."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("toughen.reports") is None:
        return ""
    try:
        import_module("toughen.reports").report([str(folder)])
    except Exception as error:
        sys.stderr.write(f"toughen: no report.html: {' '.join(str(error).split())}\n")
        return ""
    return " (report.html)"
