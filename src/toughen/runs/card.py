"""README.md of a run: a model card that the Hub reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..heads.configuration import is_published
from ..internal.markdown import line
from ..tasks import Data, Task
from .config import Config
from .results import Results, SeedSummary

PIPELINES = {"tokens": "token-classification", "choices": "multiple-choice"}
NAMES = {"tokens": "AutoModelForTokenClassification", "choices": "AutoModelForMultipleChoice"}


def model_card(results: Results, data: Data, also: Mapping[str, Data], config: Config) -> str:
    """Front matter with a model-index, then what was done in words and numbers."""
    task, method = data.task, results.method
    published = is_published(config.model)
    name = f"{task.name}-{method.name}"
    scores = results.seeds[0].metrics if len(results.seeds) == 1 else results.mean
    sets = {"": task, **{f"_{ending}": each.task for ending, each in also.items()}}
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
