"""The config of one trial: the base, the settings over it, and absolute paths."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..runs.config import Config
from ..runs.config_io import build, merge, normalised
from ..runs.signatures import own_file

FILES = ("dir", "train_file", "validation_file", "test_file", "cache_dir")


def trial_config(base: Mapping[str, Any], settings: Mapping[str, Any], seeds: tuple[int, ...]) -> Config:
    """Build the config of these settings; unknown and wrong options raise, as in any config."""
    values = merge(copy.deepcopy(dict(base)), normalised(settings))
    return build({**absolute_paths(values), "seed": list(seeds)})


def absolute_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make local paths absolute: workers may have another working directory."""
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
            found["method"] = {**method, "name": "+".join(map(_absolute_paths, str(method["name"]).split("+")))}
    return found


def _absolute_paths(name: str) -> str:
    path, key = own_file(name.strip())
    return name if path is None else f"{Path(path).resolve()}:{key}"
