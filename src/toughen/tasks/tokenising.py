"""Text as token ids: made once, in batches and in parallel, kept as memory-mapped Arrow."""

import hashlib
import json
import os
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import require
from .read.arrow import cache_folder
from .spec import Data, DataError, Task

if TYPE_CHECKING:
    from datasets import Dataset

IGNORED = -100
_VERSION = 2


def prepare(
    data: Data,
    tokenizer: Any,
    max_length: int | None = None,
    *,
    num_proc: int | None = None,
    batch_size: int = 1000,
    cache_dir: "str | os.PathLike[str] | None" = None,
    truncation: bool | str = True,
) -> Data:
    """Tokenise every split: input_ids, attention_mask, token_type_ids where the tokenizer has them, labels.

    A set already tokenised in the same way is found again in `cache_dir` (by default the cache of `datasets`).
    The labels of a split whose labels are withheld are left out.
    """
    base = tokeniser(data.task, tokenizer, max_length, truncation)

    def change(_: str, split: Any) -> Any:
        work = replace(base, labelled=is_labelled(split, data.task))
        if not hasattr(split, "__len__"):
            return _stream(split, work, batch_size)
        return _tokenise(split, work, batch_size, num_proc, cache_dir)

    notes = (*data.notes, f"tokenised by {type(tokenizer).__name__}, at most {base.max_length} tokens")
    return replace(data.each(change), notes=notes)


def tokeniser(task: Task, tokenizer: Any, max_length: int | None = None, truncation: bool | str = True) -> "Tokenise":
    """How a task's texts become token ids; without labels."""
    spaced = task.head == "tokens" and _loses_spaces(tokenizer)
    return Tokenise(task, tokenizer, max_length or _longest(tokenizer), truncation, False, spaced)


@dataclass(frozen=True)
class Tokenise:
    """A batch of rows to a batch of token ids, as Arrow arrays."""

    task: Task
    tokenizer: Any
    max_length: int
    truncation: bool | str = True
    labelled: bool = True
    spaced: bool = False
    """Write the space before every word but the first, for tokenizers that would lose it."""

    def __call__(self, table: Any) -> Any:
        """Tokenise an Arrow table of text."""
        arrow = require("pyarrow", "tasks")
        rows = {name: table.column(name).to_pylist() for name in self.task.columns}
        encoded = self.encode(rows)
        columns = self._ids(encoded, len(table))
        if self.labelled:
            columns["labels"] = self._labels(table, encoded)
        return arrow.table(columns)

    def encode(self, rows: dict[str, list[Any]]) -> Any:
        """The tokenizer's own batched call; the attention mask is all ones before padding and is made here."""
        # "do_not_truncate" and not False: False would also warn when a text is long.
        settings: dict[str, Any] = {"truncation": self.truncation, "max_length": self.max_length}
        settings["return_attention_mask"] = False
        if self.task.head == "tokens":
            words = rows["tokens"]
            if self.spaced:
                words = [[f" {word}" if place else word for place, word in enumerate(row)] for row in words]
            return self.tokenizer(words, is_split_into_words=True, **settings)
        if self.task.head == "choices":
            first, second = flat_choices(rows)
            return self.tokenizer(first, second, **settings)
        return self.tokenizer(*(rows[column] for column in self.task.columns), **settings)

    def _ids(self, encoded: Any, rows: int) -> dict[str, Any]:
        ids = encoded["input_ids"]
        ends = np.cumsum([0, *map(len, ids)], dtype=np.int32)
        columns = {"input_ids": _nested(ids, ends, np.int32), "attention_mask": _full(ends)}
        if "token_type_ids" in encoded:
            columns["token_type_ids"] = _nested(encoded["token_type_ids"], ends, np.int8)
        if self.task.head == "choices":
            group = np.arange(0, len(ids) + 1, len(ids) // rows, dtype=np.int32)
            lists = require("pyarrow", "tasks").ListArray
            columns = {name: lists.from_arrays(group, column) for name, column in columns.items()}
        return columns

    def _labels(self, table: Any, encoded: Any) -> Any:
        arrow = require("pyarrow", "tasks")
        labels = table.column("label")
        if self.task.head == "tokens":
            aligned = [align(encoded.word_ids(row), tags) for row, tags in enumerate(labels.to_pylist())]
            return _nested(aligned, np.cumsum([0, *map(len, aligned)], dtype=np.int32), np.int32)
        if self.task.head == "multilabel":
            hot = np.zeros((len(labels), len(self.task.labels)), dtype=np.float32)
            for row, numbers in enumerate(labels.to_pylist()):
                hot[row, numbers] = 1
            return arrow.array(list(hot), type=arrow.list_(arrow.float32()))
        return labels.cast(arrow.float32() if self.task.head == "regression" else arrow.int64())


def align(words: list[int | None], tags: list[int]) -> list[int]:
    """The tag of a word on its first piece, and the ignored label on special tokens and further pieces."""
    out: list[int] = []
    before: int | None = None
    for word in words:
        out.append(IGNORED if word is None or word == before else tags[word])
        before = word
    return out


def flat_choices(rows: dict[str, list[Any]]) -> tuple[list[str], list[str]]:
    """Context and completed choice of every choice of every row, row after row."""
    first: list[str] = []
    second: list[str] = []
    for context, question, choices in zip(rows["context"], rows["question"], rows["choices"], strict=True):
        first += [context] * len(choices)
        second += [f"{question} {choice}".strip() for choice in choices]
    return first, second


def fingerprint(split: Any, work: Tokenise) -> str:
    """A name for the result that changes with the rows, the tokenizer and the settings."""
    settings = (_VERSION, split._fingerprint, work.max_length, work.truncation, work.labelled, work.task.head)
    text = json.dumps((settings, work.task.columns, work.task.labels, tokenizer_key(work.tokenizer)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def tokenizer_key(tokenizer: Any) -> str:
    """What a tokenizer does, as text. Its own call leaves padding and truncation behind, so these are left out."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        state = json.loads(backend.to_str())
        state["truncation"] = state["padding"] = None
    else:
        # One written in Python has no description of itself: its vocabulary and what it was made with stand for it.
        made = {name: str(value) for name, value in tokenizer.init_kwargs.items()}
        state = (sorted(tokenizer.get_vocab().items()), sorted(made.items()))
    sides = (getattr(tokenizer, "truncation_side", ""), tokenizer.model_input_names)
    return hashlib.sha256(json.dumps((type(tokenizer).__name__, sides, state)).encode()).hexdigest()


def _tokenise(split: Any, work: Tokenise, batch_size: int, num_proc: int | None, cache_dir: Any) -> "Dataset":
    name = fingerprint(split, work)
    folder = cache_folder(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    done = split.with_format("arrow").map(
        work,
        batched=True,
        batch_size=batch_size,
        writer_batch_size=batch_size,
        num_proc=num_proc if num_proc and len(split) > batch_size else None,
        remove_columns=split.column_names,
        load_from_cache_file=True,
        cache_file_name=str(folder / f"tokens-{name}.arrow"),
        new_fingerprint=name,
    )
    return done.with_format(None)


def _stream(split: Any, work: Tokenise, batch_size: int) -> Any:
    columns = list(split.features)

    def batch(rows: dict[str, list[Any]]) -> dict[str, Any]:
        return work(require("pyarrow", "tasks").table(rows)).to_pydict()

    return split.map(batch, batched=True, batch_size=batch_size, remove_columns=columns)


def _nested(lists: list[list[int]], ends: Any, kind: Any) -> Any:
    """Lists of whole numbers as one Arrow array, by way of a flat buffer: many times faster than value by value."""
    flat = np.fromiter(chain.from_iterable(lists), dtype=kind, count=int(ends[-1]))
    return require("pyarrow", "tasks").ListArray.from_arrays(ends, flat)


def _full(ends: Any) -> Any:
    return require("pyarrow", "tasks").ListArray.from_arrays(ends, np.ones(int(ends[-1]), dtype=np.int8))


def is_labelled(split: Any, task: Task) -> bool:
    """Whether a split has labels: a withheld one is -1 throughout."""
    first = next(iter(split), None)
    if first is None or "label" not in first:
        return False
    if task.head == "tokens":
        return min(first["label"]) >= 0
    if task.head == "multilabel":
        return not hasattr(split, "__len__") or any(len(labels) for labels in split["label"])
    return first["label"] != -1 or (task.head == "regression" and hasattr(split, "__len__") and _varies(split))


def _varies(split: Any) -> bool:
    return len(set(split.with_format("numpy")["label"][:1000].tolist())) > 1


def _longest(tokenizer: Any) -> int:
    """The tokenizer's own limit, where it has a real one."""
    longest = int(tokenizer.model_max_length)
    if longest > 1_000_000:
        raise DataError("the tokenizer does not say how long a text may be; give max_length=.")
    return longest


def _loses_spaces(tokenizer: Any) -> bool:
    """Whether words given one by one lose the space before them, where the tokenizer writes it into the piece."""
    if not tokenizer.is_fast:
        raise DataError(f"{type(tokenizer).__name__} cannot tell which word a piece is of; use a fast tokenizer.")
    cutter = json.loads(tokenizer.backend_tokenizer.to_str())["pre_tokenizer"] or {}
    parts = [cutter, *cutter.get("pretokenizers", ())]
    if any(part.get("type") == "ByteLevel" and not part.get("add_prefix_space") for part in parts):
        return True
    # Others, as Gemma's, show it only in what they do.
    apart, written = (
        tokenizer(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        for words in (["a", "b"], ["a", " b"])
    )
    return apart not in (written, tokenizer("a b", add_special_tokens=False)["input_ids"])
