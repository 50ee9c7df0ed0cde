"""The end of a run: results.json from the seeds that are done, the best seed's model, the model card and the page."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__
from ..internal.atomic import copy_folder, write_text
from .card import model_card
from .config import Config
from .folder import RunFolder
from .job import Material
from .progress import Reporter
from .results import MethodRecord, Results, SeedSummary

PACKAGES = ("torch", "transformers", "accelerate", "datasets", "peft", "safetensors", "tokenizers", "numpy")


def write_results(folder: RunFolder, config: Config, material: Material) -> None:
    """Write the results of all seeds done so far; nothing while the method has none."""
    seeds = folder.done(config, "method")
    if not seeds:
        return
    data, also = material.data, material.also
    baseline = folder.done(config, "baseline")
    notes = [*data.notes, *material.notes, *folder.oom_notes()]
    left = len(config.seed) - len(seeds)
    if "repr" in config.method:
        notes.append("the method was given as an object that no name makes: config.yaml cannot run it again by itself")
    if left:
        notes.append(f"unfinished: {left} of {len(config.seed)} seeds are missing")
    if config.seed and config.data.eval_split != "validation":
        notes.append(f"the best epoch was chosen on the split {config.data.eval_split}, which is also scored")
    settings = {k: v for k, v in config.method.items() if k not in ("name", "repr") and v is not None}
    results = Results(
        path=folder.path,
        toughen=__version__,
        task=data.task.name,
        model=config.model,
        head=config.head.name,
        method=MethodRecord(config.method_name, settings, repr(material.method)),
        metric=data.task.selects,
        summary=SeedSummary.of(seeds),
        baseline=SeedSummary.of(baseline) if baseline else None,
        data={
            f"{name}{ending}": len(split)
            for ending, each in {"": data, **{f"_{key}": other for key, other in also.items()}}.items()
            for name, split in each.splits.items()
        },
        versions=versions(),
        hardware=hardware(),
        notes=notes,
    )
    copy_folder(folder.path / results.best.folder / "model", folder.path / "model")
    card = model_card(results, data, also, config)
    write_text(folder.path / "README.md", card)
    write_text(folder.path / "model" / "README.md", card)
    folder.write_results(results)


def write_page(folder: RunFolder, reporter: Reporter) -> None:
    """Write report.html; a page that fails must not make a finished run look failed."""
    from ..reports.page import report

    try:
        report([folder.path])
    except Exception as error:
        reporter.line(f"! no report.html: {' '.join(str(error).split())}")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    return {name: value for name, value in found.items() if value}


def version_of(package: str) -> str:
    """Return the installed version, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def hardware() -> dict[str, Any]:
    """Return what the run was made on."""
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "gpus": gpus}
