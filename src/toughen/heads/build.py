"""`second_order`: the head on a backbone, as a model to train."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from .backbone import body_of, class_token_of, is_vision, prefix_tokens_of
from .settings import HeadSettings, head_settings

Task = Literal["sequence-classification", "multiple-choice", "image-classification"]


def second_order(
    model_or_name: Any,
    num_labels: int | None = None,
    q: int | None = None,
    k: int | None = None,
    dropout: float | None = None,
    *,
    preset: str | Iterable[str] | None = None,
    settings: HeadSettings | None = None,
    task: Task | None = None,
    problem_type: str | None = None,
    id2label: dict[int, str] | None = None,
    class_token: Literal["first", "last", "pooled"] | None = None,
    special_token_ids: Sequence[int] | None = None,
    from_pretrained: dict[str, Any] | None = None,
    **head: Any,
) -> Any:
    """A pretrained model whose classifier is a second-order head, ready for training.

    `model_or_name` is a name or folder for `AutoModel.from_pretrained` (which gets the arguments in `from_pretrained`),
    or a model: its body is taken over, its task head left behind. Of an encoder-decoder the encoder is used.
    `num_labels=1` is regression unless `problem_type` says otherwise. The head: `q`, `k`, `dropout` and every other field
    of `HeadSettings`, on top of `preset` (a name or several, e.g. "rte" or ("original-text", "rte")), or all in `settings`.
    """
    from transformers import AutoModel, PreTrainedModel

    from . import modeling
    from .configuration import SecondOrderConfig

    if settings is None:
        settings = head_settings(preset, q=q, k=k, dropout=dropout, **head)
    elif preset is not None or head or (q, k, dropout) != (None, None, None):
        raise ValueError("settings already says everything about the head; drop preset, q, k, dropout and the others.")

    if isinstance(model_or_name, PreTrainedModel):
        if from_pretrained:
            raise ValueError("from_pretrained is for loading by name, but a model was given.")
        model = model_or_name
    elif hasattr(model_or_name, "peft_config"):
        raise ValueError("the model already carries adapters. Put the head on first, then the adapters.")
    elif isinstance(model_or_name, str) or hasattr(model_or_name, "__fspath__"):
        model = AutoModel.from_pretrained(model_or_name, **(from_pretrained or {}))
    else:
        raise TypeError(
            f"model_or_name is a {type(model_or_name).__name__}; give a PreTrainedModel, a name or a folder."
        )

    below = model.config
    chosen_token = class_token or class_token_of(below)
    vision = is_vision(below)
    task = task or ("image-classification" if vision else "sequence-classification")
    classes = {
        "sequence-classification": modeling.SecondOrderForSequenceClassification,
        "multiple-choice": modeling.SecondOrderForMultipleChoice,
        "image-classification": modeling.SecondOrderForImageClassification,
    }
    if task not in classes:
        raise ValueError(f"task={task!r} is unknown. Use one of {', '.join(classes)}.")
    if (task == "image-classification") != vision:
        raise ValueError(f"task={task!r} does not fit a {below.model_type} backbone.")

    labels: dict[str, Any] = {}
    if id2label is not None:
        if num_labels not in (None, len(id2label)):
            raise ValueError(f"num_labels={num_labels}, but id2label names {len(id2label)}.")
        labels = {"id2label": id2label, "label2id": {name: index for index, name in id2label.items()}}
    elif num_labels is not None:
        labels = {"num_labels": num_labels}
    else:
        labels = {"id2label": below.id2label, "label2id": below.label2id}  # those of the task head left behind

    training = model.training
    body = body_of(model, chosen_token)
    if hasattr(body.config, "use_cache"):
        body.config.use_cache = False  # keys and values of past tokens serve generation only
    config = SecondOrderConfig(
        backbone_config=body.config,
        head=asdict(settings),
        class_token=chosen_token,
        prefix_tokens=prefix_tokens_of(below) if vision else 1,
        special_token_ids=list(special_token_ids) if special_token_ids is not None else None,
        problem_type=problem_type,
        **labels,
    )
    built = classes[task](config, backbone=body)
    built.classifier.to(device=body.device, dtype=body.dtype)
    return built.train(training)
