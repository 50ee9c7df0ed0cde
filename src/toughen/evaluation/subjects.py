"""What is evaluated: the model of a run, its seeds, its checkpoints, or any model folder."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..reports.folder import no_run
from ..tasks.spec import DataError


@dataclass(frozen=True)
class Subject:
    """One model on disk, and what its run says about task and data."""

    model: Path
    home: Path
    """The folder that gets `evaluations/`."""
    label: str = ""
    """What tells it from other models of the same home: seed-2, checkpoint-30."""
    task: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `data:` group of the run's configuration."""


def subjects_of(
    path: "str | os.PathLike[str]", *, all_seeds: bool = False, all_checkpoints: bool = False
) -> list[Subject]:
    """The models meant by a path: a run's best one, or all its seeds or checkpoints; or a model folder."""
    folder = Path(path)
    if (folder / "results.json").is_file():
        return _of_run(folder, all_seeds, all_checkpoints)
    if all_checkpoints and (found := list(_checkpoints(folder))):
        return [Subject(each, folder, each.name) for each in found]
    if (folder / "trials").is_dir():
        raise DataError(f"{folder} {no_run(folder)}")
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} is neither a run (results.json) nor a model folder (config.json).")
    if all_checkpoints:
        raise DataError(f"{folder} has no checkpoint-* folder; train with --train.keep_checkpoints true.")
    return [Subject(folder, folder)]


def _of_run(run: Path, all_seeds: bool, all_checkpoints: bool) -> list[Subject]:
    task, data = _settings(run)
    if not all_seeds and not all_checkpoints:
        if not (run / "model" / "config.json").is_file():
            raise DataError(f"{run} has no model: its folder model/ is missing.")
        return [Subject(run / "model", run, "", task, data)]
    found: list[Subject] = []
    for arm, folder in (("seed", "seeds"), ("baseline", "baseline")):
        homes = [each for each in (run / folder).glob("*") if each.is_dir()]
        for home in sorted(homes, key=lambda each: (len(each.name), each.name)):
            models = list(_checkpoints(home)) if all_checkpoints else [home / "model"]
            for model in models:
                if (model / "config.json").is_file():
                    label = f"{arm}-{home.name}" + (f"-{model.name}" if all_checkpoints else "")
                    found.append(Subject(model, run, label, task, data))
    if not found:
        kind = "checkpoint (train with --train.keep_checkpoints true)" if all_checkpoints else "model of a seed"
        raise DataError(f"{run} keeps no {kind}.")
    return found


def _settings(run: Path) -> tuple[str | None, dict[str, Any]]:
    """The registered task, None for own files; and the data group of the configuration."""
    import yaml

    try:
        results: Any = json.loads((run / "results.json").read_text(encoding="utf-8"))
        text = (run / "config.yaml").read_text(encoding="utf-8") if (run / "config.yaml").is_file() else ""
        config: Any = yaml.safe_load(text) or {}
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"{run} is a broken run: {' '.join(str(error).split())}") from None
    data = cast("dict[str, Any]", config.get("data") or {})
    return (None if data.get("train_file") else results.get("task")), data


def _checkpoints(folder: Path) -> Iterator[Path]:
    numbered = [each for each in folder.glob("checkpoint-*") if each.name.rpartition("-")[2].isdigit()]
    yield from sorted(numbered, key=lambda each: int(each.name.rpartition("-")[2]))
