"""Rows of different lengths as one padded batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .spec import Head, Task
from .tokenising import IGNORED

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Collate:
    """Pads to the longest row, to a multiple of it, or to the edge of its length bucket; for every head."""

    head: Head
    pad_token_id: int
    pad_token_type_id: int = 0
    padding_side: str = "right"
    pad_to_multiple_of: int | None = None
    edges: tuple[int, ...] = ()

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """A batch of tensors with the names a model takes."""
        flat = self._flat(rows)
        length = self.length(max(len(row["input_ids"]) for row in flat))
        fill = {"input_ids": self.pad_token_id, "attention_mask": 0, "token_type_ids": self.pad_token_type_id}
        batch = {name: self._pad([row[name] for row in flat], fill[name], length) for name in fill if name in flat[0]}
        if self.head == "choices":
            batch = {name: value.view(len(rows), -1, length) for name, value in batch.items()}
        if "labels" in rows[0]:
            batch["labels"] = self._labels([row["labels"] for row in rows], length)
        return batch

    def length(self, longest: int) -> int:
        """The padded length of a batch whose longest row has this many tokens."""
        if self.edges:
            return next((edge for edge in self.edges if edge >= longest), longest)
        step = self.pad_to_multiple_of or 1
        return -(-longest // step) * step

    def _flat(self, rows: Sequence[Row]) -> Sequence[Row]:
        """For multiple choice every choice is a row of its own while it is padded."""
        if self.head != "choices":
            return rows
        names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in rows[0]]
        return [{name: row[name][choice] for name in names} for row in rows for choice in range(len(row["input_ids"]))]

    def _labels(self, labels: Sequence[Any], length: int) -> torch.Tensor:
        if self.head == "tokens":
            return self._pad(labels, IGNORED, length)
        kind = torch.float32 if self.head in ("regression", "multilabel") else torch.int64
        return torch.tensor(labels, dtype=kind)

    def _pad(self, lists: Sequence[Sequence[int]], fill: int, length: int) -> torch.Tensor:
        out = torch.full((len(lists), length), fill, dtype=torch.int64)
        for row, values in enumerate(lists):
            piece = torch.as_tensor(values, dtype=torch.int64)
            if self.padding_side == "left":
                out[row, length - len(piece) :] = piece
            else:
                out[row, : len(piece)] = piece
        return out


def rows_of(encoded: Any, choices: Sequence[int] = ()) -> list[dict[str, Any]]:
    """What a tokenizer gave of a batch, as rows for the collator; `choices` are how many each row has."""
    names = [name for name in ("input_ids", "token_type_ids") if name in encoded]
    flat = [
        {"attention_mask": [1] * len(ids), **{name: encoded[name][place] for name in names}}
        for place, ids in enumerate(encoded["input_ids"])
    ]
    if not choices:
        return flat
    source = iter(flat)
    groups = [[next(source) for _ in range(count)] for count in choices]
    return [{name: [one[name] for one in group] for name in group[0]} for group in groups]


def collator(
    task: Task, tokenizer: Any, *, pad_to_multiple_of: int | None = None, edges: Sequence[int] = ()
) -> Collate:
    """The collator of a task for a tokenizer."""
    if tokenizer.pad_token_id is None:
        raise ValueError("the tokenizer has no padding token; set tokenizer.pad_token = tokenizer.eos_token.")
    return Collate(
        head=task.head,
        pad_token_id=tokenizer.pad_token_id,
        pad_token_type_id=getattr(tokenizer, "pad_token_type_id", 0),
        padding_side=tokenizer.padding_side,
        pad_to_multiple_of=pad_to_multiple_of,
        edges=tuple(sorted(edges)),
    )
