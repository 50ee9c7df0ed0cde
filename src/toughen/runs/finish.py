"""The end of a run: results.json, the best seed's model, report.html, and README.md as a model card for the Hub."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from .. import __version__
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
        method=MethodRecord(config.method_name, settings, repr(prepared.method)),
        metric=data.task.primary_metric,
        summary=SeedSummary.of(seeds),
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


PIPELINES = {"tokens": "token-classification", "choices": "multiple-choice"}
NAMES = {"tokens": "AutoModelForTokenClassification", "choices": "AutoModelForMultipleChoice"}


def model_card(results: Results, data: Data, extra_eval_sets: Mapping[str, Data], config: Config) -> str:
    """Front matter with a model-index, then what was done in words and numbers."""
    task, method = data.task, results.method
    published = is_published(config.model)
    name = f"{task.name}-{method.name}"
    scores = results.seeds[0].metrics if len(results.seeds) == 1 else results.mean
    sets = {"": task, **{f"_{ending}": each.task for ending, each in extra_eval_sets.items()}}
    index = {"name": name, "results": [_indexed(each, config, scores, end) for end, each in sets.items()]}
    front: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": PIPELINES.get(task.head, "text-classification"),
        **({"base_model": config.model} if published else {}),
        "tags": ["toughen", "robust-fine-tuning", *method.name.split("+")],
        "model-index": [index],
    }
    base = f"`{config.model}`" if published else f"a local model (`{Path(config.model).name}`)"
    auto = NAMES.get(task.head, "AutoModelForSequenceClassification")
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False).strip(),
        "---",
        "",
        f"# {name}",
        "",
        f"{base}, fine-tuned on {task.title} with `{method.name}` by toughen {results.toughen}.",
        "",
        *(["```python", "import toughen  # knows the second-order head"] if results.head else ["```python"]),
        f"from transformers import AutoTokenizer, {auto}",
        "",
        f'model = {auto}.from_pretrained("path/or/name")',
        'tokenizer = AutoTokenizer.from_pretrained("path/or/name")',
        "```",
        "",
        *_numbers(results),
        "",
        "## Method",
        "",
        "```",
        method.repr,
        "```",
        "",
        "## Notes",
        "",
        *(f"- {note}" for note in results.notes),
        f"- {', '.join(f'{key} {value}' for key, value in results.versions.items())}",
        "",
    ]
    return "\n".join(lines)


def _indexed(task: Task, config: Config, scores: Mapping[str, float], ending: str) -> dict[str, Any]:
    """One set of the model-index."""
    metrics = [{"type": key, "value": round(scores[key + ending], 6)} for key in task.metrics if key + ending in scores]
    split = config.data.eval_split
    if task.hub is None:
        where: dict[str, Any] = {"type": "own", "split": split}
    else:
        where = {"type": task.hub.id, **({"config": task.hub.config} if task.hub.config else {})}
        where["split"] = next(iter(task.splits.get(split, (split,))))
    return {
        "task": {"type": PIPELINES.get(task.head, "text-classification")},
        "dataset": {"name": task.title, **where},
        "metrics": metrics,
    }


def _numbers(results: Results) -> list[str]:
    names = list(results.mean)
    seeds = ", ".join(str(seed.seed) for seed in results.seeds)
    lines = [
        f"## Scores (seeds {seeds})",
        "",
        line(["", *names]),
        f"|---|{'---:|' * len(names)}",
        line([results.method.name, *(_cell(results.summary, name) for name in names)]),
    ]
    if results.baseline:
        lines.append(line(["plain", *(_cell(results.baseline, name) for name in names)]))
    return lines


def _cell(values: SeedSummary, name: str) -> str:
    spread = f" ± {values.sd[name]:.4f}" if len(values.seeds) > 1 else ""
    return f"{values.mean[name]:.4f}{spread}"
