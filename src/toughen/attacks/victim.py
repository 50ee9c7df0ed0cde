"""The model under attack as a function of texts, logits cached: a classifier of transformers, or any function."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from ..evaluation.outputs import class_order, effective_max_length, length_of
from ..tasks import collator
from ..tasks.batching import rows_of
from ..tasks.spec import DataError, Task
from ..tasks.tokenising import align, tokeniser
from .base import Row

Precision = Literal["auto", "fp32", "bf16"]
_TYPICAL_LENGTH = 32  # tokens of a row for which a batch may be full
_CACHE_SIZE = 400_000  # texts; more would fill the memory if texts are long
_ASKED_TWICE, _ROUNDING = 8, 1e-3  # rows; share of the largest logit by which two answers to one text may differ


class TextVictim(ABC):
    """What attacks on texts need of a model. `scores` may run in bfloat16; `exact` never does, and is what counts."""

    half = False
    name: str
    """Its class or function."""
    device: Any = "cpu"
    rows: int
    """Of one pass at most."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.scorer = LabelScorer(task)
        self.passed = 0  # texts put through the model so far
        self._cache: dict[Any, Any] = {}

    @property
    def settings(self) -> list[Any]:
        """What the answers depend on besides weights and rows."""
        return []

    @abstractmethod
    def _logits(self, rows: Sequence[Row], half: bool) -> Any:
        """Return the logits of rows in the order of the task's classes."""

    def exact(self, rows: Sequence[Row]) -> Any:
        """Return logits in float32, in the order of the task's classes, as `evaluate` has them."""
        return self._logits(rows, half=False)

    def refuse_random(self, rows: Sequence[Row]) -> None:
        """Refuse a model whose answers to the same texts differ: an attack would count luck as robustness or success.

        A defence that draws at test time must be judged by its mean answer (Athalye et al. 2018).
        """
        first, second = self.exact(rows[:_ASKED_TWICE]), self.exact(rows[:_ASKED_TWICE])
        for one, two in zip(first, second, strict=True):
            if np.abs(one - two).max() > _ROUNDING * np.abs(one).max():
                raise DataError(
                    f"{self.name} gives two answers to the same text, so an attack cannot be scored. Call "
                    "eval(), which turns dropout off, or return the mean of many draws."
                )

    def scores(self, rows: Sequence[Row]) -> Any:
        """Return logits for a search: each text is put to the model once, in half precision where that is faster."""
        keys = [self.key(row) for row in rows]
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._cache}
        if len(self._cache) + len(new) > _CACHE_SIZE:
            self._cache = {key: self._cache[key] for key in set(keys) if key in self._cache}
        if new:
            self._cache.update(zip(new, self._logits(list(new.values()), self.half), strict=True))
        return np.stack([self._cache[key] for key in keys])

    def key(self, row: Row) -> tuple[str, ...]:
        """Return the texts of a row: rows with the same texts have the same logits."""
        return tuple(str(row[column]) for column in self.task.columns)


class Victim(TextVictim):
    """A classifier of transformers with its tokenizer: batches of like length, one tokenizer call for many texts.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        task: The task.
        max_length: Tokens at which texts are cut.
        pad_to_max_length: Pad every batch to `max_length`.
        batch_size: Rows that go through the model at once.
        precision: "fp32", "bf16", or "auto": bf16 on a GPU.

    Examples:
        >>> victim = toughen.evaluation.Victim(model.eval(), tokenizer, toughen.tasks.task("mnli"))
        >>> victim.exact([{"premise": "w5 w6", "hypothesis": "w7"}]).shape
        (1, 3)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        task: Task,
        *,
        max_length: int | None = None,
        pad_to_max_length: bool = False,
        batch_size: int | None = None,
        precision: Precision = "auto",
    ) -> None:
        super().__init__(task)
        self.model, self.tokenizer = model, tokenizer
        self.name, self.device = type(model).__name__, model.device
        self.order = class_order(model.config, task)
        self.text_tokenizer = tokeniser(task, tokenizer, effective_max_length(max_length, model, tokenizer))
        self.pads = pad_to_max_length
        self.collate = collator(task, tokenizer, edges=(self.text_tokenizer.max_length,) if pad_to_max_length else ())
        self.cuda = model.device.type == "cuda"
        self.half = precision == "bf16" or (precision == "auto" and self.cuda)
        # As many rows as keep the device busy; fewer where gradients need the activations of every layer.
        self.rows = batch_size or (2048 if self.cuda else 64)
        self.rows_with_gradient = batch_size or (256 if self.cuda else 32)

    @property
    def settings(self) -> list[Any]:
        return [self.half, self.text_tokenizer.max_length, *["padded"] * self.pads]

    def _logits(self, rows: Sequence[Row], half: bool) -> Any:
        import torch

        logits: list[Any] = [None] * len(rows)
        with torch.inference_mode(), self.autocast(half):
            for indices, batch in self.batches(rows):
                values = self.logits(batch).float().cpu().numpy()
                for index, value in zip(indices, values, strict=True):
                    logits[index] = value
        self.passed += len(rows)
        return np.stack(logits) if self.task.head != "tokens" else logits

    def logits(self, batch: Mapping[str, Any]) -> Any:
        """Run one forward pass; return its logits with the classes in the order of the task."""
        values = self.model(**batch).logits
        return values if self.order is None else values[..., self.order]

    def autocast(self, half: bool) -> Any:
        import torch

        return torch.autocast(self.model.device.type, torch.bfloat16) if half else nullcontext()

    def batches(self, rows: Sequence[Row], most: int | None = None) -> Iterator[tuple[list[int], dict[str, Any]]]:
        """Yield indices and tensors of batches: rows of like length share one, and no output depends on the order.

        A batch has at most `most` rows, and long rows count for more.
        """
        most = most or self.rows
        features = self.features(rows)
        lengths = [self.collate.length(length_of(row["input_ids"])) for row in features]
        ranked = sorted(range(len(rows)), key=lengths.__getitem__)
        start = 0
        while start < len(ranked):
            count = min(most, len(ranked) - start)
            while count > 1 and count * lengths[ranked[start + count - 1]] > most * _TYPICAL_LENGTH:
                count = max(1, min(count - 1, most * _TYPICAL_LENGTH // lengths[ranked[start + count - 1]]))
            indices = ranked[start : start + count]
            batch = self.collate([features[index] for index in indices])
            yield indices, {name: value.to(self.model.device, non_blocking=True) for name, value in batch.items()}
            start += count

    def features(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the token ids of every row, with its tags if each word has one."""
        encoded = self.text_tokenizer.encode({column: [row[column] for row in rows] for column in self.task.columns})
        features = rows_of(encoded, len(rows[0]["choices"]) if self.task.head == "choices" else 0)
        if self.task.head != "tokens":
            return features
        return [{**row, "labels": align(encoded.word_ids(i), rows[i]["label"])} for i, row in enumerate(features)]


TextFunction = Callable[[list[Any]], Any]
"""A model as a function: a list of texts, or of pairs of texts, to an array with a row for each."""


class FunctionVictim(TextVictim):
    """Any function from texts to probabilities, or to amounts for a regression; its columns are the task's labels.

    Args:
        function: From a list of texts (pairs are tuples) to a row of probabilities for each.
        task: The task.
        batch_size: Texts of one call.

    Examples:
        >>> import numpy
        >>> even = lambda texts: numpy.full((len(texts), 2), 0.5)
        >>> victim = toughen.evaluation.FunctionVictim(even, toughen.tasks.task("sst2"))
        >>> victim.exact([{"sentence": "good"}]).shape
        (1, 2)
    """

    def __init__(self, function: TextFunction, task: Task, *, batch_size: int | None = None) -> None:
        if task.kind not in ("sentence", "pair") or task.head not in ("classes", "regression"):
            raise DataError(
                f"a function reads texts or pairs of texts, and {task.name!r} has {task.kind} with {task.head}; give "
                "the folder of a model."
            )
        super().__init__(task)
        self.function, self.rows = function, batch_size or 64
        self.name = str(getattr(function, "__name__", type(function).__name__))

    def _logits(self, rows: Sequence[Row], half: bool) -> Any:
        texts: list[Any] = [key if self.task.kind == "pair" else "".join(key) for key in map(self.key, rows)]
        parts = [self._call(texts[start : start + self.rows]) for start in range(0, len(texts), self.rows)]
        self.passed += len(texts)
        return np.concatenate(parts)

    def _call(self, texts: list[Any]) -> Any:
        """Call the function, and return logarithms of its probabilities; refuse what is none."""
        classes = len(self.task.labels) or 1
        wanted = "one number for each text"
        if self.task.labels:
            wanted = f"a row for each text with {classes} probabilities, of {', '.join(self.task.labels)}"
        answer = self.function(texts)
        answer = answer.detach().cpu() if hasattr(answer, "detach") else answer
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"the function returned {type(answer).__name__}, no array of numbers; give {wanted}."
            ) from None
        if values.shape != (len(texts), classes) and (self.task.labels or values.shape != (len(texts),)):
            shape = " x ".join(map(str, values.shape)) or type(answer).__name__
            raise DataError(f"the function returned {shape} for {len(texts)} texts; give {wanted}.")
        if not np.isfinite(values).all():
            first = texts[int(np.argmin(np.isfinite(values).reshape(len(texts), -1).all(axis=1)))]
            raise DataError(f"the function returned NaN or infinity for {str(first)[:60]!r}; give {wanted}.")
        if not self.task.labels:
            return values.reshape(len(texts), 1)
        if (values < 0).any() or not np.allclose(values.sum(axis=1), 1, atol=1e-2):
            raise DataError(
                f"the function's rows are no probabilities (0 or more, sum 1); apply softmax; give {wanted}."
            )
        return np.log(np.maximum(values, np.finfo(np.float64).tiny))


class LabelScorer:
    """Judge logits by a label: one class of the model is right, or all that a set maps onto the label (HANS)."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def correct_mask(self, label: int, classes: int) -> Any:
        """Return which of the model's classes are right."""
        class_map = self.task.class_map if len(self.task.class_map) == classes else range(classes)
        return np.asarray(class_map) == label

    def margin(self, logits: Any, label: int) -> float:
        """Return the lead of the best wrong class over the best right one; above 0 the answer is wrong."""
        right = self.correct_mask(label, len(logits))
        return float(logits[~right].max() - logits[right].max())

    def probability(self, logits: Any, label: int) -> float:
        """Return the probability of the label."""
        values = np.exp(np.asarray(logits, dtype=np.float64) - logits.max())
        return float(values[self.correct_mask(label, len(logits))].sum() / values.sum())

    def predicted_class(self, logits: Any) -> int:
        """Return the class that the model predicts, as the set has it."""
        number = int(np.argmax(logits))
        return self.task.class_map[number] if len(self.task.class_map) == len(logits) else number

    def label_name(self, number: int) -> str:
        return self.task.labels[number] if number < len(self.task.labels) else str(number)
