"""Build a model to train: the second-order head on a backbone."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from .backbone import body_of, can_be_made_from, class_token_of, is_vision, measure_width, prefix_tokens_of
from .settings import HeadSettings, head_settings

Task = Literal["sequence-classification", "multiple-choice", "image-classification"]


def second_order(
    model_or_name: object,
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
    """Return a pretrained model whose classifier is a second-order head, ready for training.

    The body of the model is taken over, its task head is left behind. Of an encoder-decoder the encoder is used,
    of a model of text and images the part that reads text.

    Args:
        model_or_name: A name or folder for `AutoModel.from_pretrained`, or a model.
        num_labels: The number of classes; 1 is regression unless `problem_type` says otherwise.
        q: Width of the queries in the covariance.
        k: Width of the keys.
        dropout: Dropout on the pooled vector.
        preset: One name or several of published settings, such as "rte" or ("original-text", "rte").
        settings: All settings of the head at once, in place of `q`, `k`, `dropout`, `preset` and `**head`.
        task: "sequence-classification", "multiple-choice" or "image-classification"; by default by the backbone.
        problem_type: As in transformers' configs.
        id2label: The names of the classes.
        class_token: Which token stands for the whole text: "first", "last" or "pooled".
        special_token_ids: Tokens that `skip_special` leaves out.
        from_pretrained: Arguments of `AutoModel.from_pretrained`.
        **head: Any other field of `toughen.heads.HeadSettings`.

    Returns:
        The model, which saves and loads as any transformers model.

    Raises:
        ValueError: Settings that contradict each other, or a model that already has such a head or adapters.

    Examples:
        >>> second = toughen.second_order(model, num_labels=3, q=8, k=4)
        >>> tuple(second(**batch).logits.shape)
        (4, 3)
    """
    from . import modeling
    from .configuration import SecondOrderConfig

    if settings is None:
        settings = head_settings(preset, q=q, k=k, dropout=dropout, **head)
    elif preset is not None or head or (q, k, dropout) != (None, None, None):
        raise ValueError("settings already says everything about the head; drop preset, q, k, dropout and the others.")
    model = _load(model_or_name, from_pretrained)
    below, vision = model.config, is_vision(model)
    token = class_token or class_token_of(model)
    classes = {
        "sequence-classification": modeling.SecondOrderForSequenceClassification,
        "multiple-choice": modeling.SecondOrderForMultipleChoice,
        "image-classification": modeling.SecondOrderForImageClassification,
    }
    chosen = task or ("image-classification" if vision else "sequence-classification")
    if chosen not in classes:
        raise ValueError(f"task={task!r} is unknown. Use one of {', '.join(classes)}.")
    if (chosen == "image-classification") != vision:
        raise ValueError(f"task={task!r} does not fit a {below.model_type} backbone.")

    training = model.training
    body = body_of(model, token)
    if hasattr(body.config, "use_cache"):
        body.config.use_cache = False  # keys and values of past tokens serve generation only
    if not body.config.architectures:
        body.config.architectures = [type(body).__name__]  # Funnel's config stands for two models
    config = SecondOrderConfig(
        backbone_config=body.config if can_be_made_from(body.config) else below,
        head=asdict(settings),
        class_token=token,
        prefix_tokens=prefix_tokens_of(below) if vision else 1,
        width=measure_width(body, vision),
        special_token_ids=list(special_token_ids) if special_token_ids is not None else None,
        problem_type=problem_type,
        **_labels(below, num_labels, id2label),
    )
    built = classes[chosen](config, backbone=body)
    built.classifier.to(device=body.device, dtype=body.dtype)
    return built.train(training)


def _load(model_or_name: Any, arguments: dict[str, Any] | None) -> Any:
    from transformers import AutoModel, PreTrainedModel

    from .configuration import SecondOrderConfig

    if isinstance(model_or_name, str) or hasattr(model_or_name, "__fspath__"):
        try:
            return AutoModel.from_pretrained(model_or_name, **(arguments or {}))
        except ValueError as error:
            if SecondOrderConfig.__name__ not in str(error):
                raise
        raise ValueError(
            f"{model_or_name} holds a model with a second-order head. Load it (AutoModelForSequenceClassification."
            "from_pretrained) and train it on, or give the loaded model here for a new head on its backbone."
        )
    if hasattr(model_or_name, "peft_config"):
        raise ValueError(
            "the model already carries adapters. Put the head on first, then the adapters: "
            "get_peft_model(second_order(...), config)."
        )
    if not isinstance(model_or_name, PreTrainedModel):
        raise TypeError(f"model_or_name is a {type(model_or_name).__name__}; give a model, a name or a folder.")
    if arguments:
        raise ValueError("from_pretrained is for loading by name, but a model was given.")
    return model_or_name


def _labels(below: Any, num_labels: int | None, id2label: dict[int, str] | None) -> dict[str, Any]:
    if num_labels is not None and num_labels < 1:
        raise ValueError(f"num_labels={num_labels}: it must be at least 1; 1 is regression.")
    if id2label is None and num_labels is not None:
        return {"num_labels": num_labels}
    if id2label is None:
        # The labels of the task head left behind.
        return {"id2label": dict(below.id2label), "label2id": dict(below.label2id)}
    if num_labels not in (None, len(id2label)):
        raise ValueError(f"num_labels={num_labels}, but id2label names {len(id2label)}.")
    return {"id2label": id2label, "label2id": {name: int(index) for index, name in id2label.items()}}
