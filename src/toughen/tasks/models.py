"""Say which model a task needs."""

from typing import Any

from ..internal.architectures import longest_input as longest_input
from .registry import task as task_named
from .spec import Task

_PROBLEMS = {
    "classes": "single_label_classification",
    "regression": "regression",
    "multilabel": "multi_label_classification",
}
_CLASSES = {
    "tokens": "AutoModelForTokenClassification",
    "choices": "AutoModelForMultipleChoice",
}


def model_task(task: str | Task) -> Task:
    """Return the task whose model is meant: the tested one for a set that tests another.

    Args:
        task: The task, or its name.

    Returns:
        The task that the model was trained on.

    Raises:
        DataError: No task has this name.

    Examples:
        >>> toughen.tasks.model_task("hans").name
        'mnli'
    """
    found = task_named(task)
    return task_named(found.tests) if found.tests else found


def model_kwargs(task: str | Task) -> dict[str, Any]:
    """Return what `from_pretrained` needs so that the head fits the task and names its classes.

    Args:
        task: The task, or its name.

    Returns:
        Keywords such as num_labels and id2label.

    Raises:
        DataError: No task has this name.

    Examples:
        >>> toughen.tasks.model_kwargs("rte")["num_labels"]
        2
    """
    found = model_task(task)
    if found.head == "choices":
        return {}
    if found.head == "regression":
        return {"num_labels": 1, "problem_type": "regression"}
    settings: dict[str, Any] = {
        "num_labels": len(found.labels),
        "id2label": dict(enumerate(found.labels)),
        "label2id": {label: number for number, label in enumerate(found.labels)},
    }
    if found.head in _PROBLEMS:
        settings["problem_type"] = _PROBLEMS[found.head]
    return settings


def auto_class(task: str | Task) -> Any:
    """Return the `transformers` class to load: sequence, token or multiple-choice classification.

    Args:
        task: The task, or its name.

    Returns:
        The class, whose `from_pretrained` loads the model.

    Raises:
        DataError: No task has this name.

    Examples:
        >>> toughen.tasks.auto_class("rte").__name__
        'AutoModelForSequenceClassification'
    """
    import transformers

    return getattr(transformers, _CLASSES.get(model_task(task).head, "AutoModelForSequenceClassification"))
