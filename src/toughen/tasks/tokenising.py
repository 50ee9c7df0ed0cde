"""Turn texts into token ids: once, in batches and in parallel, kept as memory-mapped Arrow."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .read.arrow import cache_folder
from .spec import Data, DataError, Task

IGNORED = -100
TOKEN_COLUMNS = ("input_ids", "attention_mask", "token_type_ids")
_VERSION = 3


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

    Args:
        data: What `load` returned.
        tokenizer: The tokenizer of the model.
        max_length: Tokens at which texts are cut; by default what the model reads.
        num_proc: Processes.
        batch_size: Rows that are tokenised at once.
        cache_dir: Where tokenised rows are kept.
        truncation: How texts are cut, as the tokenizer takes it.

    Returns:
        The data with tokenised rows.

    Raises:
        DataError: A row without text.

    Examples:
        >>> from toughen.demo import sample
        >>> data = toughen.tasks.prepare(toughen.tasks.load(train_file=sample(folder)[1]), tokenizer, 16)
    """
    base = tokeniser(data.task, tokenizer, max_length, truncation)

    def change(_: str, split: Any) -> Any:
        work = replace(base, labelled=is_labelled(split, data.task))
        options: dict[str, Any] = {"batched": True, "batch_size": batch_size, "remove_columns": list(split.features)}
        if not hasattr(split, "__len__"):
            return split.map(work, **options)
        name = fingerprint(split, work)
        folder = cache_folder(cache_dir)
        folder.mkdir(parents=True, exist_ok=True)
        return split.map(
            work,
            **options,
            writer_batch_size=batch_size,
            num_proc=num_proc if num_proc and len(split) > batch_size else None,
            load_from_cache_file=True,
            cache_file_name=str(folder / f"tokens-{name}.arrow"),
            new_fingerprint=name,
        )

    notes = (*data.notes, f"tokenised by {type(tokenizer).__name__}, at most {base.max_length} tokens")
    return replace(data.each(change), notes=notes)


def tokeniser(task: Task, tokenizer: Any, max_length: int | None = None, truncation: bool | str = True) -> "Tokenise":
    """Return what turns a task's texts into token ids; without labels."""
    spaced = task.head == "tokens" and _loses_spaces(tokenizer)
    longest = int(tokenizer.model_max_length)
    if not max_length and longest > 1_000_000:
        raise DataError("the tokenizer does not say how long a text may be; give max_length=.")
    return Tokenise(task, tokenizer, max_length or longest, truncation, False, spaced)


@dataclass(frozen=True)
class Tokenise:
    """Turns a batch of rows into a batch of token ids."""

    task: Task
    tokenizer: Any
    max_length: int
    truncation: bool | str = True
    labelled: bool = True
    spaced: bool = False
    """Write the space before every word but the first, for tokenizers that would lose it."""

    def __call__(self, rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Return the columns of token ids, and of labels where there are some."""
        encoded = self.encode(rows)
        columns = token_columns(encoded, len(self.task.labels) if self.task.head == "choices" else 0)
        if self.labelled:
            labels = rows["label"]
            if self.task.head == "tokens":
                labels = [align(encoded.word_ids(row), tags) for row, tags in enumerate(labels)]
            elif self.task.head == "multilabel":
                labels = [[float(number in row) for number in range(len(self.task.labels))] for row in labels]
            columns["labels"] = labels
        return columns

    def encode(self, rows: Mapping[str, list[Any]]) -> Any:
        """Return the output of the tokenizer's own batched call."""
        # "do_not_truncate" and not False: False would also warn when a text is long.
        # The attention mask is all ones before padding: `token_columns` makes it.
        settings: dict[str, Any] = {"truncation": self.truncation, "max_length": self.max_length}
        settings["return_attention_mask"] = False
        if self.task.head == "tokens":
            words = rows["tokens"]
            if self.spaced:
                words = [[f" {word}" if index else word for index, word in enumerate(row)] for row in words]
            return self.tokenizer(words, is_split_into_words=True, **settings)
        if self.task.head == "choices":
            texts = zip(rows["context"], rows["question"], rows["choices"], strict=True)
            pairs = [(text, f"{question} {each}".strip()) for text, question, choices in texts for each in choices]
            return self.tokenizer(*map(list, zip(*pairs, strict=True)), **settings)
        return self.tokenizer(*(rows[column] for column in self.task.columns), **settings)


def token_columns(encoded: Mapping[str, Any], choices: int = 0) -> dict[str, list[Any]]:
    """Return the columns of tokenised texts, with an attention mask; rows of several `choices` hold a list of each."""
    ids = encoded["input_ids"]
    found = {**encoded, "attention_mask": [[1] * len(row) for row in ids]}
    columns = {name: list(found[name]) for name in TOKEN_COLUMNS if name in found}
    if not choices:
        return columns
    starts = range(0, len(ids), choices)
    return {name: [values[start : start + choices] for start in starts] for name, values in columns.items()}


def align(words: list[int | None], tags: list[int]) -> list[int]:
    """The tag of a word on its first piece, and the ignored label on special tokens and further pieces."""
    out: list[int] = []
    before: int | None = None
    for word in words:
        out.append(IGNORED if word is None or word == before else tags[word])
        before = word
    return out


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


def is_labelled(split: Any, task: Task) -> bool:
    """Whether a split has labels: a withheld one is -1 throughout."""
    first = next(iter(split), None)
    if first is None or "label" not in first:
        return False
    if task.head == "tokens":
        return min(first["label"]) >= 0
    if task.head == "multilabel":
        return not hasattr(split, "__len__") or any(len(labels) for labels in split["label"])
    if first["label"] != -1 or task.head != "regression" or not hasattr(split, "__len__"):
        return first["label"] != -1
    return len(set(split.with_format("numpy")["label"][:1000].tolist())) > 1


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
