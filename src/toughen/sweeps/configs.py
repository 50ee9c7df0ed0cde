"""The config of one trial: the base with the trial's settings over it, and paths that hold in every process."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..runs.config import Config
from ..runs.config_io import build, merge, normalised
from ..runs.method_options import own_file

FILES = ("dir", "train_file", "validation_file", "test_file", "cache_dir")


def trial_config(base: Mapping[str, Any], settings: Mapping[str, Any], seeds: tuple[int, ...]) -> Config:
    """The config of these settings; refused like any other where an option is unknown or wrong."""
    values = merge(copy.deepcopy(dict(base)), normalised(settings))
    return build({**anchored(values), "seed": list(seeds)})


def anchored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with local paths made absolute: workers may have another working directory."""
    found = dict(values)
    if found.get("model") is not None and Path(str(found["model"])).exists():
        found["model"] = str(Path(str(found["model"])).resolve())
    if isinstance(found.get("data"), Mapping):
        data = cast("Mapping[str, Any]", found["data"])
        found["data"] = {
            key: str(Path(str(value)).resolve()) if key in FILES and value is not None else value
            for key, value in data.items()
        }
    if isinstance(found.get("method"), Mapping):
        method = dict(cast("Mapping[str, Any]", found["method"]))
        if "name" in method:
            found["method"] = {**method, "name": "+".join(map(_anchored, str(method["name"]).split("+")))}
    return found


def _anchored(name: str) -> str:
    path, key = own_file(name.strip())
    return name if path is None else f"{Path(path).resolve()}:{key}"
