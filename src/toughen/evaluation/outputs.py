"""A model's outputs on a split of raw rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..tasks import auto_class, collator, longest_input, model_task, prepare
from ..tasks import lengths as row_lengths
from ..tasks.scoring import check_numbers
from ..tasks.spec import Data, DataError, Task
from ..tasks.tokenising import IGNORED


@dataclass(frozen=True)
class Outputs:
    """Logits in the order of the task's classes, labels, and how many tokens each row has.

    Args:
        logits: A row of numbers for each row.
        labels: A label for each row.
        lengths: Tokens of each row.

    Examples:
        >>> import numpy
        >>> int(toughen.evaluation.Outputs(numpy.eye(2), numpy.arange(2), numpy.array([5, 7])).lengths.sum())
        12
    """

    logits: Any
    labels: Any
    lengths: Any


def load_model(folder: Any, task: Task) -> tuple[Any, Any]:
    """The model, in float32 and eval mode, and its tokenizer; refused where it would answer by chance."""
    import torch

    from ..runs.modeling import load_tokenizer, load_trained

    tokenizer = load_tokenizer(os.fspath(folder))
    model = load_trained(auto_class(task), Path(folder), tokenizer).eval()
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def outputs_of(
    model: Any,
    tokenizer: Any,
    task: Task,
    rows: Any,
    *,
    max_length: int | None = None,
    pad_to_max_length: bool = False,
    batch_size: int = 64,
) -> Outputs:
    """What the model says about raw rows of the task (a `datasets.Dataset` with its columns and `label`).

    Whoever changes rows first, as attacks do, hands the changed rows over here.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        task: The task.
        rows: A data set with the columns of the task and `label`.
        max_length: Tokens at which texts are cut.
        pad_to_max_length: Pad every batch to `max_length`.
        batch_size: Rows that go through the model at once.

    Returns:
        Logits, labels and lengths.

    Raises:
        DataError: No rows, withheld labels, or classes that do not match the model's.

    Examples:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_list([{"premise": "w5 w6", "hypothesis": "w7", "label": 1}])
        >>> toughen.evaluation.outputs_of(model, tokenizer, toughen.tasks.task("mnli"), rows).logits.shape
        (1, 3)
    """
    import torch

    order = class_order(model.config, task)
    length = effective_max_length(max_length, model, tokenizer)
    split = prepare(Data(task, validation=rows), tokenizer, length).validation
    if "labels" not in split.column_names:
        kept = "A run has its test predictions in seeds/1/predictions/test.tsv."
        raise DataError(
            f"the labels of this split are withheld: nothing can be scored. {kept} Give another split or file."
        )
    lengths = row_lengths(split)
    collate = collator(task, tokenizer, edges=(length,) if pad_to_max_length and length else ())
    # Rows of like length share a batch: less padding, and no output depends on the order.
    ranked = np.argsort(lengths, kind="stable")
    outputs: list[Any] = [None] * len(split)
    labels: list[Any] = [None] * len(split)
    with torch.inference_mode():
        for start in range(0, len(ranked), batch_size):
            indices = ranked[start : start + batch_size].tolist()
            batch = {key: value.to(model.device) for key, value in collate([split[i] for i in indices]).items()}
            y_true = batch.pop("labels").cpu().numpy()
            logits = model(**batch).logits.float().cpu().numpy()
            for index, one, label in zip(indices, logits, y_true, strict=True):
                outputs[index] = one[..., order] if order is not None else one
                labels[index] = label
    if task.head == "tokens":
        check_numbers([one[label != IGNORED] for one, label in zip(outputs, labels, strict=True)])
        return Outputs([np.argmax(one, axis=-1) for one in outputs], labels, lengths)
    return Outputs(np.stack(outputs), np.stack(labels), lengths)


def class_names(config: Any) -> list[str]:
    """What the model calls its classes, in the order of its output."""
    return [str(config.id2label[number]) for number in range(config.num_labels)]


def cut_words_note(task: Task, rows: Sequence[Any], outputs: Outputs) -> list[str]:
    """A note on tagged words the model never saw: neither a hit nor a miss, they leave a score better than it is."""
    if task.head != "tokens":
        return []
    words = sum(len(row["label"]) for row in rows)
    seen = sum(int((np.asarray(row) != IGNORED).sum()) for row in outputs.labels)
    note = f"{words - seen} of {words} tagged words are not scored, because their texts are cut at max_length"
    return [note] if seen < words else []


def class_order(config: Any, task: Task) -> list[int] | None:
    """Where the task's classes stand in the model's output; None where they stand as they are."""
    wanted = model_task(task)
    if wanted.head == "regression" and config.num_labels != 1:
        raise DataError(
            f"{task.name!r} has numbers as labels, and the model {config.num_labels} classes; give rows with classes."
        )
    if wanted.head in ("choices", "regression"):
        return None
    names = class_names(config)
    if len(names) != len(wanted.labels):
        raise DataError(
            f"the model has {len(names)} classes ({_first_names(names)}) and {wanted.name!r} has {len(wanted.labels)} "
            f"({_first_names(wanted.labels)}); give rows of its own "
            "classes, or name the classes in its config.json (id2label)."
        )
    labels = list(wanted.labels)
    if sorted(names) != sorted(labels):  # else to the letter: classes may differ in nothing but case
        plain, small = [name.lower() for name in names], [label.lower() for label in labels]
        if _has_default_names(names):
            return None  # taken as they stand
        if sorted(plain) != sorted(small):
            raise DataError(
                f"the model's classes are {', '.join(names)}, those of the data {', '.join(labels)}; rename one."
            )
        names, labels = plain, small
    order = [names.index(label) for label in labels]
    return None if order == list(range(len(order))) else order


def unnamed_classes_note(config: object, task: Task) -> list[str]:
    """A note where words are scored against classes that nobody named: another order would be another score."""
    wanted = model_task(task)
    names = class_names(config)
    words = [label for label in wanted.labels if not label.lstrip("-").isdigit()]
    if wanted.head not in ("classes", "multilabel", "tokens") or not words or not _has_default_names(names):
        return []
    if [label.lower() for label in wanted.labels] == [name.lower() for name in names]:
        return []
    pairs = ", ".join(f"{name} is taken for {label!r}" for name, label in zip(names[:3], wanted.labels, strict=False))
    more = ", ..." if len(names) > 3 else ""
    return [
        f"the model's classes have no names: {pairs}{more}; name them in its config.json (id2label) if that is wrong"
    ]


def _has_default_names(names: Sequence[str]) -> bool:
    return all(name.lower() == f"label_{number}" for number, name in enumerate(names))


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def effective_max_length(max_length: int | None, model: Any, tokenizer: Any) -> int | None:
    """The length texts are cut at: what was asked for, and at most what the model reads."""
    limit = longest_input(tokenizer, model.config)
    return min(max_length or limit, limit) if limit else max_length


def max_length_note(asked: int | None, model: object, tokenizer: object) -> list[str]:
    """A note where more was asked for than the model reads."""
    limit = effective_max_length(asked, model, tokenizer)
    note = f"texts are cut at {limit} tokens and not at max_length={asked}: the model reads no more"
    return [note] if asked and limit and limit < asked else []


def length_of(ids: Any) -> int:
    """Tokens of a row; of its longest choice, where there are several."""
    return max(map(len, ids)) if len(ids) and isinstance(ids[0], (list, tuple, np.ndarray)) else len(ids)
