"""results.json from the seeds that are done; the best seed's model; the model card."""

import json
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from . import memory
from .card import model_card
from .config import Config
from .files import copy_folder, write_text
from .folder import seed_folder, write_results
from .job import Material
from .progress import Reporter

PACKAGES = ("torch", "transformers", "accelerate", "datasets", "peft", "safetensors", "tokenizers", "numpy")


def finish(folder: Path, config: Config, material: Material) -> None:
    """Write the results of all seeds done so far; nothing while the method has none."""
    seeds = _done(folder, config, "method")
    if not seeds:
        return
    data, also = material.data, material.also
    baseline = _done(folder, config, "baseline")
    said = [*data.notes, *material.notes, *memory.notes(folder)]
    left = len(config.seed) - len(seeds)
    if "repr" in config.method:
        said.append("the method was given as an object that no name makes: config.yaml cannot run it again by itself")
    if left:
        said.append(f"unfinished: {left} of {len(config.seed)} seeds are missing")
    if config.seed and config.data.eval_split != "validation":
        said.append(f"the best epoch was chosen on the split {config.data.eval_split}, which is also scored")
    values: dict[str, Any] = {
        "toughen": __version__,
        "task": data.task.name,
        "model": config.model,
        "head": config.head.name,
        "method": {
            "name": config.method_name,
            "settings": {k: v for k, v in config.method.items() if k not in ("name", "repr") and v is not None},
            "repr": repr(material.method),
        },
        "metric": data.task.primary_metric,
        "higher_is_better": True,
        "seeds": seeds,
        **summary(seeds),
        "baseline": {"seeds": baseline, **summary(baseline)} if baseline else None,
        "data": {
            f"{name}{ending}": len(split)
            for ending, each in {"": data, **{f"_{key}": other for key, other in also.items()}}.items()
            for name, split in each.splits.items()
        },
        "versions": versions(),
        "hardware": hardware(),
        "notes": said,
    }
    best = max(seeds, key=lambda seed: seed["metrics"][data.task.primary_metric])
    copy_folder(folder / best["folder"] / "model", folder / "model")
    card = model_card(values, data, also, config)
    write_text(folder / "README.md", card)
    write_text(folder / "model" / "README.md", card)
    write_results(folder, values)


def is_complete(folder: Path, config: Config) -> bool:
    """Whether results.json holds every seed of every arm."""
    file = folder / "results.json"
    if not file.is_file():
        return False
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    arms = [values["seeds"], *([(values["baseline"] or {}).get("seeds", [])] if config.baseline else [])]
    return all(len(seeds) == len(config.seed) for seeds in arms)


def write_page(folder: Path, reporter: Reporter) -> None:
    """report.html; a page that fails must not make a finished run look failed."""
    from ..reports.page import report

    try:
        report([folder])
    except Exception as error:
        reporter.line(f"! no report.html: {' '.join(str(error).split())}")


def _done(folder: Path, config: Config, arm: str) -> list[dict[str, Any]]:
    files = [seed_folder(folder, arm, seed) / "result.json" for seed in config.seed]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]


def summary(seeds: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean, sample standard deviation (0 for one seed) and median of every metric."""
    names = list(seeds[0]["metrics"])
    values = {name: [seed["metrics"][name] for seed in seeds] for name in names}
    return {
        "mean": {name: statistics.fmean(each) for name, each in values.items()},
        "sd": {name: statistics.stdev(each) if len(each) > 1 else 0.0 for name, each in values.items()},
        "median": {name: statistics.median(each) for name, each in values.items()},
    }


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    found = {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    return {name: value for name, value in found.items() if value}


def version_of(package: str) -> str:
    """The installed version, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def hardware() -> dict[str, Any]:
    """What the run was made on."""
    import os

    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "gpus": gpus}
