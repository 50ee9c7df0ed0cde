"""What is scanned, a saved model or a function, made into a target of attacks; bad input is refused before it runs."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..attacks.target import Target
from ..attacks.victim import FunctionVictim, TextFunction
from ..tasks import load
from ..tasks.spec import DataError, Task, options_of_caller
from .evaluate_model import KNOWN, ModelRef, check_split, clean_pass, model_refs, read_rows, rows_name, selected_options
from .measures import Evaluation, measure, text_slices
from .outputs import Outputs

if TYPE_CHECKING:
    from datasets import Dataset

_WEIGHTS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")


@dataclass(frozen=True)
class Subject:
    """A model with its answers to unchanged rows, and where the results of its scan go."""

    name: str
    target: Target
    evaluation: Evaluation
    home: Path
    seconds: float
    """Of one pass over the rows."""
    folder: Path | None = None
    """Of its weights; a function has none."""


@dataclass(frozen=True)
class Source:
    """The rows of a scan, and how they are read."""

    file: Any = None
    task: str | Task | None = None
    dir: Any = None
    split: str = "validation"
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options that read a file, those not given None."""
    limit: int | None = None
    batch_size: int | None = None
    samples: int = 1000


@options_of_caller(*KNOWN)
def saved_subject(model: Any, source: Source, max_length: int | None) -> Subject:
    """Return a run's model, that of a folder, or one of the Hub."""
    ref = _model_ref(model)
    data = read_rows(ref, source.task, source.split, source.file, source.dir, dict(source.reading), source.limit)
    check_rows(getattr(data, source.split), data.task)
    about = (source.file, source.limit, max_length, source.batch_size, source.samples)
    clean = clean_pass(ref, data, source.split, *about)
    target = clean.target(data.task, batch_size=source.batch_size, split=source.split, samples=source.samples)
    name = Path(model).resolve().name if Path(model).is_dir() else str(model)
    return Subject(name, target, clean.evaluation, ref.home / "scan" / clean.evaluation.name, clean.seconds, ref.model)


def _model_ref(model: Any) -> ModelRef:
    if Path(model).is_dir():
        return model_refs(model)[0]
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(model)):
        raise DataError(f"{model} is not a folder; give a run, a saved model, or a name on the Hugging Face Hub.")
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(str(model), allow_patterns=list(_WEIGHTS)))
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise DataError(f"{model} is not a folder, and it cannot be loaded from the Hub: {why}") from None
    return ModelRef(folder, Path("scan") / str(model).replace("/", "--"))


@options_of_caller(*KNOWN, "labels")
def function_subject(function: TextFunction, source: Source, labels: Sequence[str] | None) -> Subject:
    """Return a function with its answers; it is called on a few rows first, twice."""
    if hasattr(function, "save_pretrained"):
        kind = type(function).__name__
        raise DataError(f"{kind} takes token ids, not texts: save it with its tokenizer and give that folder.")
    if source.file is None and source.task is None:
        raise DataError("a function has no rows of its own: give file= (--file), or task= with dir=.")
    check_split(source.split)
    given: dict[str, Any] = selected_options(source.reading, tuple(source.reading))
    given |= {"dir": source.dir} if source.file is None else {f"{source.split}_file": source.file}
    data = load(source.task, labels=labels, limit=source.limit, **given)
    split = getattr(data, source.split)
    if split is None:
        raise DataError(f"{data.task.name!r} has no split {source.split!r}; it has {', '.join(data.splits)}.")
    check_rows(split, data.task)
    rows = [dict(row) for row in split]
    victim = FunctionVictim(function, data.task, batch_size=source.batch_size)
    victim.refuse_random(rows)
    began = time.perf_counter()
    logits, y_true = victim.exact(rows), np.asarray(split["label"])
    seconds = time.perf_counter() - began
    words = [sum(len(text.split()) for text in victim.key(row)) for row in rows]
    cut = source.limit if len(rows) == source.limit else None
    notes = [f"the function's columns are taken for {', '.join(data.task.labels)}; labels= names another order"]
    evaluation = measure(
        data.task,
        Outputs(logits, y_true, words),
        name=rows_name(ModelRef(Path(), Path()), data.task, source.split, source.file, cut),
        split=source.split,
        columns=text_slices(data.task, rows),
        samples=source.samples,
        model=victim.name,
        notes=[*map(str, data.doubts), *(notes if data.task.labels and labels is None else ())],
    )
    target = Target(victim, rows, logits, y_true, split=source.split, samples=source.samples)
    place = re.sub(r"[^\w.-]+", "-", victim.name).strip("-") or "function"
    return Subject(victim.name, target, evaluation, Path("scan") / place / evaluation.name, seconds)


def check_rows(split: "Dataset", task: Task) -> None:
    """Refuse rows that no score can be made of: without labels, of one class, without texts."""
    if "label" not in split.column_names:
        raise DataError("these rows have no label, and a scan needs them; name the column with label_column=.")
    for column in task.columns:
        if column == "question":  # of multiple choice, it may be empty
            continue
        texts: list[Any] = list(split[column])
        empty = [n for n, text in enumerate(texts) if not (text.strip() if isinstance(text, str) else text)]
        if empty:
            raise DataError(
                f"{len(empty)} of {len(texts)} texts in {column!r} are empty, that of row {empty[0] + 1} first; remove "
                "these rows, or name another column with text_column=."
            )
    if task.head == "classes":
        found = sorted(set(map(int, split["label"])))
        if len(found) < 2:
            only = task.labels[found[0]] if 0 <= found[0] < len(task.labels) else "none"
            raise DataError(f"all {len(split)} rows have the label {only!r}; give rows of two classes or more.")
