"""Call a trained model as a function of texts."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any, cast

from ..tasks import Task, answers_of, auto_class, collator, longest_input
from ..tasks.batching import rows_of
from ..tasks.scoring import check_numbers
from ..tasks.tokenising import tokeniser
from .config import DataConfig
from .errors import RunError
from .folder import RunFolder
from .progress import silence_libraries
from .results import format_label, probabilities

PAIR = ("text", "text_pair")
Input = str | Sequence[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Prediction:
    """The model's answer for one input."""

    label: Any
    """The label's name; a number for regression; a list for several labels or for the words of a text."""
    score: float | None = None
    """Probability of the label."""
    probabilities: Mapping[str, float] | None = None

    def __str__(self) -> str:
        return f"{self.label}" if self.score is None else f"{self.label} {self.score:.4f}"


@dataclass(frozen=True)
class Predictor:
    """Call it with a text, a pair of texts, or a list of them.

    Multiple choice takes mappings with `context`, `question` and `choices`; token tasks a text or a list of words.

    Args:
        model: The model, in eval mode.
        tokenizer: Its tokenizer.
        task: The task.
        max_length: Tokens at which texts are cut.
        batch_size: Texts that go through the model at once.

    Examples:
        >>> toughen.load(run)("a fine film").label in ("negative", "positive")
        True
    """

    model: Any
    tokenizer: Any
    task: Task
    max_length: int
    batch_size: int = 32
    plain: bool = False
    """Whether the model has no run, which would say if it reads a text or a pair: it gets what is given."""
    pad_to_max_length: bool = False
    """Pad as the run did that trained the model."""

    def __call__(self, inputs: Input | Sequence[Input]) -> Any:
        """Return one prediction for one input, a list for a list."""
        if not isinstance(inputs, (Sequence, Mapping)) or isinstance(inputs, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RunError(f"{inputs!r} is no text; give a text, a pair, or a list of them.")
        one = isinstance(inputs, (str, tuple, Mapping))
        given = cast("list[Input]", [inputs] if one else list(inputs))
        if not given:
            return []
        predictions = [prediction for part in self._parts(given) for prediction in part]
        return predictions[0] if one else predictions

    def _parts(self, inputs: list[Input]) -> Iterator[list[Prediction]]:
        rows = [self._row(each, number) for number, each in enumerate(inputs)]
        # A batch of multiple choice is one table: rows with more choices than others need one of their own.
        many = self.task.head == "choices"
        for number, alike in groupby(rows, key=lambda row: len(row["choices"] if many else self._texts(row))):
            part, reads = list(alike), self
            if number == 2 and self.plain and not many:
                reads = replace(self, task=replace(self.task, columns=PAIR))
            for start in range(0, len(part), self.batch_size):
                yield reads._predict(part[start : start + self.batch_size])

    def _texts(self, row: Mapping[str, Any]) -> Sequence[str]:
        """Return the columns of a row that are read."""
        return PAIR if self.plain and PAIR[1] in row else self.task.columns

    def _row(self, given: Input, number: int) -> dict[str, Any]:
        """Return an input by the names of the task's columns."""
        if isinstance(given, Mapping):
            missing = [name for name in self.task.columns if name not in given]
            if missing and missing != ["question"]:
                raise RunError(f"input {number + 1} has no {missing[0]!r}; it needs {', '.join(self.task.columns)}.")
            if self.task.head == "choices" and (isinstance(given["choices"], str) or not given["choices"]):
                raise RunError(f"input {number + 1}: choices is {given['choices']!r}; give a list of texts.")
            return {"question": "", **given}
        if self.task.head == "choices":
            raise RunError(f"input {number + 1}: multiple choice needs context, question and choices by name.")
        if self.task.head == "tokens":
            return {"tokens": given.split() if isinstance(given, str) else list(given)}
        texts: list[Any] = [given] if isinstance(given, str) or not hasattr(given, "__len__") else list(given)
        if odd := next((repr(text) for text in texts if not isinstance(text, str)), None):
            raise RunError(f"input {number + 1}: {odd} is no text.")
        names = PAIR[: len(texts)] if self.plain else self.task.columns
        if len(texts) != len(names) or not texts:
            wanted = "a text or a pair" if self.plain else "a pair of texts" if len(names) == 2 else "one text"
            raise RunError(f"input {number + 1} has {len(texts)} texts; this model reads {wanted}.")
        return dict(zip(names, texts, strict=True))

    def _predict(self, rows: list[dict[str, Any]]) -> list[Prediction]:
        work = tokeniser(self.task, self.tokenizer, self.max_length)  # as in training
        encoded = work.encode({name: [row[name] for row in rows] for name in self.task.columns})
        logits = self.logits(encoded, len(rows))
        if self.task.head == "tokens":
            words = [encoded.word_ids(i) for i in range(len(rows))]
            left = self.tokenizer.padding_side == "left"
            own = [one[-len(w) :] if left else one[: len(w)] for one, w in zip(logits, words, strict=True)]
            check_numbers(own)
            each = zip(words, own, rows, strict=True)
            return [
                Prediction(_word_tags(self.task, ids, one.argmax(-1), len(row["tokens"]))) for ids, one, row in each
            ]
        chances = probabilities(self.task, logits)
        pairs = zip(answers_of(self.task, logits), [None] * len(rows) if chances is None else chances, strict=True)
        return [self._to_prediction(answer, chance) for answer, chance in pairs]

    def logits(self, encoded: Any, count: int) -> Any:
        """Return the model's raw output for tokenised rows, as a NumPy array."""
        import torch

        choices = len(encoded["input_ids"]) // count if self.task.head == "choices" else 0
        edges = (self.max_length,) if self.pad_to_max_length else ()
        batch = collator(self.task, self.tokenizer, edges=edges)(rows_of(encoded, choices))
        device = next(self.model.parameters()).device
        with torch.no_grad():
            output = self.model(**{name: value.to(device) for name, value in batch.items()})
        return output.logits.float().cpu().numpy()

    def _to_prediction(self, answer: Any, chances: Any) -> Prediction:
        label = format_label(self.task, answer)
        if chances is None:
            return Prediction(label)
        named = {name: float(value) for name, value in zip(self.task.labels, chances, strict=False)}
        return Prediction(label, None if isinstance(label, list) else float(chances[int(answer)]), named)


def _word_tags(task: Task, words: list[int | None], answers: object, count: int) -> list[str]:
    """Return the tag of each word, from its first piece; words past the longest length are outside."""
    tags = ["O" if "O" in task.labels else task.labels[0]] * count
    for word, tag in reversed(list(zip(words, format_label(task, answers), strict=True))):
        if word is not None:
            tags[word] = tag
    return tags


def load(run: "str | os.PathLike[str]", *, device: str | None = None, batch_size: int = 32) -> Predictor:
    """Load a predictor from a run folder, one of its seeds, or any folder with a classifier of transformers.

    Args:
        run: The folder.
        device: Where the model goes: "cpu", "cuda:1"; by default a GPU if there is one.
        batch_size: How many texts go through the model at once.

    Returns:
        A function of a text, a pair of texts, or a list of them.

    Raises:
        RunError: The folder holds no trained classifier, or the device is not there.

    Examples:
        >>> classify = toughen.load(run)
        >>> classify("the story was wonderful").label in ("negative", "positive")
        True
        >>> len(classify(["the plot was boring", "the plot was borng"]))
        2
    """
    import torch

    from .modeling import load_tokenizer, load_trained

    if batch_size < 1:
        raise RunError(f"batch_size={batch_size}: it must be at least 1.")
    folder = Path(run)
    above = (*folder.parents[:3], *folder.resolve().parents[:3])  # as written, or where it is: "." has none
    root = next((each for each in (folder, *above) if RunFolder(each).manifest_file.is_file()), None)
    path = folder / "model" if (folder / "model" / "config.json").is_file() else folder
    if not (path / "config.json").is_file():
        if root and not folder.exists():
            raise RunError(f"{folder} does not exist; check the path.")
        unfinished = root and not (root / "model" / "config.json").is_file()
        state = (
            f"continue with: toughen train --resume {quote(str(root))}"
            if unfinished
            else "give a run or a model folder"
        )
        raise RunError(f"{folder} holds no trained model; {state}.")
    tokenizer = load_tokenizer(str(path))
    task = _task_of_run(root) if root else _task_of_model(path)
    with silence_libraries():
        model = load_trained(auto_class(task), path, tokenizer)
    data = RunFolder(root).config().data if root else DataConfig(max_length=512)
    asked = data.max_length
    length = min(asked, longest_input(tokenizer, model.config) or asked)
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model = model.to(where)
    except (RuntimeError, AssertionError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise RunError(f"device {where!r} is not available: {str(error).partition(chr(10))[0]}") from error
    padded = data.pad_to_max_length
    return Predictor(model.eval(), tokenizer, task, length, batch_size, root is None, padded)


def _task_of_run(root: Path) -> Task:
    began = RunFolder(root).manifest()
    names = {key: tuple(getattr(began, key)) for key in ("columns", "labels", "metrics")}
    return Task(began.task, began.task, began.kind, began.head, **names)  # pyright: ignore


def _task_of_model(folder: Path) -> Task:
    """Return a task with the labels and the head of a plain checkpoint; of one text if no pair is given."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = str((config.get("architectures") or ["?"])[0])
    named: dict[str, str] = config.get("id2label") or {}
    labels = tuple(named[number] for number in sorted(named, key=int))
    if "TokenClassification" in kind:
        return Task(folder.name, folder.name, "tokens", "tokens", ("tokens",), labels or ("0", "1"))
    if "MultipleChoice" in kind:
        columns = ("context", "question", "choices")
        return Task(folder.name, folder.name, "choices", "choices", columns, tuple(map(str, range(9))))
    if "SequenceClassification" not in kind:
        raise RunError(f"{folder} is a {kind}; predictions need a classifier.")
    if config.get("problem_type") == "regression" or len(labels) == 1:
        return Task(folder.name, folder.name, "sentence", "regression", ("text",), metrics=("pearson",))
    several = config.get("problem_type") == "multi_label_classification"
    labels = labels or ("LABEL_0", "LABEL_1")
    return Task(folder.name, folder.name, "sentence", "multilabel" if several else "classes", ("text",), labels)
