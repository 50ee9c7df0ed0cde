"""Texts from files, streamed, and the batches of token ids with their edited copies that are made of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from ..errors import DataError
from ..tasks.read.files import FileFormat, check_file, read_lines, read_rows, suffix
from ..text.views import TextEditor

PLAIN = (".txt", ".text", "")
BUFFER = 10_000  # texts that are shuffled together
TOKENIZED = 256  # texts that are tokenized together
FIRST = 50_000  # the held-out texts are drawn from so many first ones
LEAST = 20  # texts


def read_texts(files: Sequence[Path], column: str | None) -> Iterator[str]:
    """Yield the texts of all files: the lines of a plain one, a column of CSV, TSV, JSON lines, JSON or Parquet."""
    for file in files:
        plain = column is None and suffix(file) in PLAIN
        texts: Iterator[Any] = read_lines(file, FileFormat()) if plain else _column(file, column)
        try:
            for text in texts:
                if isinstance(text, str) and (line := " ".join(text.split())):
                    yield line
        except DataError as error:
            raise error.for_caller(()) from None  # there are no options on how a file is written


def _column(file: Path, column: str | None) -> Iterator[Any]:
    for row in read_rows(file, FileFormat()):
        if row.problem:
            raise row.error().for_caller(())
        if column is None or column not in row.fields:
            known = ", ".join(map(repr, row.fields))
            asked = "which column holds the texts? Give" if column is None else f"there is no column {column!r}; give"
            raise DataError(f"{file}: {asked} column= (--column) one of {known}.")
        yield row.fields[column]


def check_texts(files: Sequence[Path], column: str | None, measured: int, seed: int) -> dict[int, str]:
    """Return the held-out texts by their number, after a look at every file; the rest is trained on."""
    if not files:
        raise DataError("no texts: give texts= (--texts) one file or several.")
    for file in files:
        check_file(file)
        if not next(read_texts([file], column), ""):
            raise DataError(f"{file} has no text; give a file with one text a line, or name its column.")
    first = list(islice(read_texts(files, column), FIRST))
    if len(first) < LEAST:
        raise DataError(f"{files[0]}: {len(first)} texts are too few; give at least {LEAST}, better 10,000 or more.")
    numbers = random.Random(seed).sample(range(len(first)), min(measured, len(first) // 4))
    return {number: first[number] for number in sorted(numbers)}


@dataclass
class EditedTexts(IterableDataset[dict[str, Any]]):
    """Yields token ids of texts and of edited copies, for ever; memory does not depend on the number of texts.

    Every process, and every worker of it, reads all lines, and tokenizes and edits its own share. Which texts come is
    known from the number of batches that are done, so that a resumed training goes on without making those again.
    """

    files: Sequence[Path]
    column: str | None
    tokenizer: Any
    editor: TextEditor
    held_out: frozenset[int]
    max_length: int
    clean_share: float
    seed: int
    batch_size: int = 1
    rank: int = 0
    processes: int = 1
    done: int = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        number = (number + self.done) % workers  # workers take turns, and the first one makes the next batch
        left_out = self.batch_size * len(range(number, self.done, workers))
        share, shares = self.rank * workers + number, self.processes * workers
        for epoch in count():
            texts, block_number = self._texts(share, shares), 0
            while block := list(islice(texts, BUFFER)):
                rng = random.Random(f"{self.seed}/{epoch}/{share}/{block_number}")
                block_number += 1
                rng.shuffle(block)
                edited = [rng.random() >= self.clean_share for _ in block]
                skipped = min(left_out, len(block))
                left_out -= skipped
                if skipped == len(block):
                    continue
                for start in range(skipped, len(block), TOKENIZED):
                    end = start + TOKENIZED
                    ids = self.tokenizer(block[start:end], truncation=True, max_length=self.max_length)["input_ids"]
                    for each, edit in zip(ids, edited[start:end], strict=True):
                        yield self._row(each, f"{self.seed}/{epoch}", edit)
            if not block_number:  # fewer texts than workers
                share, shares = 0, 1

    def first(self, count: int) -> list[str]:
        """Return the first texts of the corpus that are not held out, in every process the same."""
        return list(islice(self._texts(0, 1), count))

    def _texts(self, share: int, shares: int) -> Iterator[str]:
        for index, text in enumerate(read_texts(self.files, self.column)):
            if index % shares == share and index not in self.held_out:
                yield text

    def _row(self, ids: list[int], key: str, edit: bool) -> dict[str, Any]:
        if not edit:
            return {"ids": ids, "view": ids, "source": range(len(ids)), "edited": False}
        view = self.editor.view(ids, key, self.max_length)
        return {"ids": ids, "view": view.ids, "source": view.source, "edited": True}


@dataclass(frozen=True)
class Collator:
    """Pads texts and views to the longest of the batch."""

    pad: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        ids, view, source = ([row[name] for row in rows] for name in ("ids", "view", "source"))
        return {
            "ids": padded(ids, self.pad),
            "mask": padded([[1] * len(each) for each in ids], 0),
            "view": padded(view, self.pad),
            "view_mask": padded([[1] * len(each) for each in view], 0),
            "source": padded(source, 0),
            "edited": torch.tensor([row["edited"] for row in rows]),
        }


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return rows of one length, filled up at the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
