"""The end of a run: results.json, the best seed's model, report.html, and README.md as a model card for the Hub."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from .. import __version__
from ..errors import count_of, require
from ..heads.configuration import is_published
from ..internal.atomic import copy_folder, write_text
from ..internal.markdown import line
from ..tasks import Data, Task
from .config import Config
from .folder import RunFolder
from .prepare import PreparedRun
from .progress import ProgressLogger
from .results import MethodRecord, Results, SeedSummary

PACKAGES = ("torch", "transformers", "accelerate", "datasets", "peft", "safetensors", "tokenizers", "numpy")


def write_results(folder: RunFolder, config: Config, prepared: PreparedRun) -> None:
    """Write the results of all seeds done so far; nothing while the method has none."""
    seeds = folder.done(config, "method")
    if not seeds:
        return
    data, extra = prepared.data, prepared.extra_eval_sets
    baseline = folder.done(config, "baseline")
    notes = [*data.notes, *prepared.notes, *folder.oom_notes()]
    left = len(config.seed) - len(seeds)
    if "repr" in config.method:
        notes.append("the method was an object without a registered name: config.yaml alone cannot run it again")
    if left:
        notes.append(f"unfinished: {left} of {count_of(len(config.seed), 'seed')} missing")
    if config.seed and config.data.eval_split != "validation":
        notes.append(f"the best epoch was chosen on the split {config.data.eval_split}, which is also scored")
    settings = {k: v for k, v in config.method.items() if k not in ("name", "repr") and v is not None}
    results = Results(
        **vars(SeedSummary.of(seeds)),
        path=folder.path,
        toughen=__version__,
        task=data.task.name,
        model=config.model,
        head=config.head.name,
        method=MethodRecord(config.method_name, settings, repr(prepared.method)),
        metric=data.task.primary_metric,
        baseline=SeedSummary.of(baseline) if baseline else None,
        data={
            f"{name}{ending}": len(split)
            for ending, each in {"": data, **{f"_{key}": other for key, other in extra.items()}}.items()
            for name, split in each.splits.items()
        },
        versions=versions(),
        hardware=hardware(),
        notes=notes,
    )
    copy_folder(folder.path / results.best.folder / "model", folder.path / "model")
    card = model_card(results, data, extra, config)
    write_text(folder.path / "README.md", card)
    write_text(folder.path / "model" / "README.md", card)
    folder.write_results(results)


def write_page(folder: RunFolder, reporter: ProgressLogger) -> None:
    """Write report.html; a page that fails must not make a finished run look failed."""
    from ..reports.page import report

    try:
        report([folder.path])
    except Exception as error:
        reporter.log(f"! no report.html: {' '.join(str(error).split())}")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers depend on."""
    installed = {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    return {name: value for name, value in installed.items() if value}


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


PIPELINES = {"tokens": "token-classification", "choices": "multiple-choice"}
NAMES = {"tokens": "AutoModelForTokenClassification", "choices": "AutoModelForMultipleChoice"}


def model_card(results: Results, data: Data, extra_eval_sets: Mapping[str, Data], config: Config) -> str:
    """Return front matter with a model-index, then what was done in words and numbers."""
    task, published = data.task, is_published(config.model)
    name = f"{task.name}-{results.method.name}"
    scores = results.seeds[0].metrics if len(results.seeds) == 1 else results.mean
    sets = {"": task, **{f"_{ending}": each.task for ending, each in extra_eval_sets.items()}}
    index = {"name": name, "results": [_indexed(each, config, scores, end) for end, each in sets.items()]}
    front: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": PIPELINES.get(task.head, "text-classification"),
        **({"base_model": config.model} if published else {}),
        "tags": ["toughen", "robust-fine-tuning", *results.method.name.split("+")],
        "model-index": [index],
    }
    variants = {results.method.name: results, **({"plain": results.baseline} if results.baseline else {})}
    rows = [line([label, *map(each.score, results.mean)]) for label, each in variants.items()]
    template = require("jinja2", "cli").Template(
        Path(__file__).with_name("model_card.md").read_text(encoding="utf-8"), trim_blocks=True
    )
    return template.render(
        results=results,
        task=task,
        name=name,
        front=yaml.safe_dump(front, sort_keys=False).strip(),
        base=f"`{config.model}`" if published else f"a local model (`{Path(config.model).name}`)",
        auto=NAMES.get(task.head, "AutoModelForSequenceClassification"),
        table=[line(["", *results.mean]), f"|---|{'---:|' * len(results.mean)}", *rows],
    )


def _indexed(task: Task, config: Config, scores: Mapping[str, float], ending: str) -> dict[str, Any]:
    """Return one set of the model-index."""
    split = config.data.eval_split
    dataset: dict[str, Any] = {"name": task.title, "type": "own", "split": split}
    if task.hub is not None:
        dataset |= {"type": task.hub.id, "split": next(iter(task.splits.get(split, (split,))))}
        dataset |= {"config": task.hub.config} if task.hub.config else {}
    metrics = [{"type": key, "value": round(scores[key + ending], 6)} for key in task.metrics if key + ending in scores]
    kind = PIPELINES.get(task.head, "text-classification")
    return {"task": {"type": kind}, "dataset": dataset, "metrics": metrics}
