"""Write the model card of a second-order model: what it is and how to load it."""

import os
from pathlib import Path
from typing import Any

from ..internal.atomic import write_text
from ..internal.markdown import line
from .configuration import is_published

TASKS = {
    "SecondOrderForSequenceClassification": ("AutoModelForSequenceClassification", "text-classification"),
    "SecondOrderForMultipleChoice": ("AutoModelForMultipleChoice", "multiple-choice"),
    "SecondOrderForImageClassification": ("AutoModelForImageClassification", "image-classification"),
}


def model_card(model: Any) -> str:
    """Return the README.md of a model: front matter for the Hub, the head's settings, three lines to load it.

    Args:
        model: A model with a second-order head.

    Returns:
        The text of README.md.

    Examples:
        >>> card = toughen.heads.model_card(toughen.second_order(model, num_labels=3, q=8, k=4))
        >>> card.startswith("---")
        True
    """
    # A class made from ours: by a user, or by FSDP, which gives every module it shards one of its own.
    name = next(each.__name__ for each in type(model).__mro__ if each.__name__ in TASKS)
    auto, pipeline = TASKS[name]
    config, head = model.config, model.config.head
    base = getattr(config.backbone_config, "_name_or_path", "") or ""
    published = is_published(base)
    lines = ["---", "library_name: transformers", f"pipeline_tag: {pipeline}"]
    lines += [f"base_model: {base}"] if published else []
    lines += ["tags:", "- toughen", "- second-order-head", "---", ""]
    below = f"`{base}`" if published else f"a {config.backbone_config.model_type} backbone"
    parameters = sum(value.numel() for value in model.classifier.parameters())
    lines += [
        f"# {name}",
        "",
        f"{below} with a second-order head ({head['pooling'].replace('_', ' ')} pooling, {parameters:,} parameters), "
        f"made with toughen.",
        "",
        "```python",
        "import toughen  # registers the model type",
        f"from transformers import {auto}",
        "",
        f'model = {auto}.from_pretrained("path/or/name/of/this/model")',
        "```",
        "",
        "| setting | value |",
        "|---|---|",
        *(line(item) for item in head.items()),
        line(("class token", config.class_token)),
        line(("labels", ", ".join(str(label) for label in (config.id2label or {}).values()))),
        "",
        "The head follows *SoT: Delving Deeper into Classification Head for Transformer* (Xie et al., 2021).",
        "",
    ]
    return "\n".join(lines)


def write_card(model: object, folder: str | os.PathLike[str]) -> None:
    """Write README.md into `folder`, unless one is there: it may have been edited."""
    path = Path(folder) / "README.md"
    if not path.exists() and not Path(folder).is_file():
        write_text(path, model_card(model))
