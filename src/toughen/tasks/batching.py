"""Rows as batches: padding, batches of rows of like length, unlabelled batches beside labelled ones."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Sampler

from ..errors import require
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
    """Turn the output of a tokenizer into rows for the collator; `choices` are how many each row has."""
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


def lengths(dataset: Any) -> Any:
    """The number of tokens of every row, read from Arrow's offsets without loading a token."""
    compute = require("pyarrow.compute", "tasks")
    counts = [_chunk_lengths(chunk, compute) for chunk in dataset.data["input_ids"].chunks]
    found = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    # A selection of rows is a list of their numbers beside the whole table.
    return found if dataset._indices is None else found[dataset._indices.column(0).to_numpy()]


def _chunk_lengths(chunk: Any, compute: Any) -> Any:
    inner = compute.list_value_length(chunk).to_numpy(zero_copy_only=False)
    if not require("pyarrow", "tasks").types.is_list(chunk.type.value_type):
        return inner.astype(np.int64)
    # Multiple choice: the longest choice decides.
    words = compute.list_value_length(chunk.flatten()).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(inner)[:-1]]).astype(np.int64)
    return np.maximum.reduceat(words, starts).astype(np.int64)


class _Batches(Sampler[list[int]], ABC):
    """Batches by seed and epoch. Every process sees the same plan and takes its own batches of it."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, rank: int, world: int, drop_last: bool):
        if batch_size < 1 or not 0 <= rank < world:
            raise ValueError(f"batch_size={batch_size}, rank={rank}, world={world}: sizes start at 1, ranks at 0.")
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.batch_size, self.seed, self.rank, self.world, self.drop_last = batch_size, seed, rank, world, drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch's order."""
        self.epoch = epoch

    @abstractmethod
    def plan(self) -> list[list[int]]:
        """All batches of the epoch, for all processes together, in order."""

    def __iter__(self) -> Iterator[list[int]]:
        plan = self.plan()
        short = -len(plan) % self.world
        if short and self.drop_last:
            plan = plan[: len(plan) - len(plan) % self.world]
        elif short:
            # Processes must take as many steps as one another: the first batches come once more.
            plan = (plan * (short // len(plan) + 2))[: len(plan) + short] if plan else plan
        yield from plan[self.rank :: self.world]

    def __len__(self) -> int:
        count = self._count()
        return count // self.world if self.drop_last else -(-count // self.world)

    def _count(self) -> int:
        rows = len(self.lengths)
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def _batches(self, rows: list[int]) -> list[list[int]]:
        batches = _cut(rows, self.batch_size)
        short = batches and len(batches[-1]) < self.batch_size
        return batches[:-1] if short and self.drop_last else batches

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch))


class LengthGrouped(_Batches):
    """Shuffled rows, sorted by length within stretches of `stretch` batches: little padding, order still random."""

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        *,
        seed: int = 0,
        stretch: int = 50,
        rank: int = 0,
        world: int = 1,
        drop_last: bool = False,
    ):
        """`rank` and `world` are for plain DDP; Trainer and Accelerate split the batches themselves."""
        super().__init__(lengths, batch_size, seed, rank, world, drop_last)
        self.stretch = stretch

    def plan(self) -> list[list[int]]:
        """All batches of the epoch, for all processes together, in order."""
        rng = self._rng()
        order = rng.permutation(len(self.lengths))
        stretches = _cut(order, self.batch_size * self.stretch)
        rows = [row for part in stretches for row in part[np.argsort(-self.lengths[part], kind="stable")].tolist()]
        batches = self._batches(rows)
        # Groups of `world` neighbours stay together, so that processes pad alike; the longest comes first,
        # so that memory runs out at once or not at all.
        groups = _cut(batches, self.world)
        ragged = groups.pop() if groups and len(groups[-1]) < self.world else []
        shuffled = [groups[place] for place in rng.permutation(len(groups))]
        if shuffled:
            longest = max(range(len(shuffled)), key=lambda place: int(self.lengths[shuffled[place][0]].max()))
            shuffled[0], shuffled[longest] = shuffled[longest], shuffled[0]
        return [batch for group in [*shuffled, ragged] for batch in group]


class LengthBucketed(_Batches):
    """Every batch comes from one length bucket, so that a step captured per padded length can be replayed.

    What is left over in a bucket moves up to the next longer one; only the last batch of the longest may be
    short, and `drop_last` drops it.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        edges: Sequence[int],
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        drop_last: bool = False,
    ):
        """`edges` are the padded lengths; give the same to the collator."""
        super().__init__(lengths, batch_size, seed, rank, world, drop_last)
        self.edges = np.asarray(sorted(edges), dtype=np.int64)
        longest = int(self.lengths.max(initial=0))
        if not len(self.edges) or longest > self.edges[-1]:
            raise ValueError(f"the longest row has {longest} tokens and the edges are {self.edges.tolist()}; add one.")

    def plan(self) -> list[list[int]]:
        """All batches of the epoch, for all processes together, in order."""
        rng = self._rng()
        order = rng.permutation(len(self.lengths))
        bucket = np.searchsorted(self.edges, self.lengths[order], side="left")
        groups: list[list[list[int]]] = []
        carried: list[int] = []
        # A group is one batch for each process: all of them replay the same graph in the same step.
        size = self.batch_size * self.world
        for number in range(len(self.edges)):
            rows = [*carried, *order[bucket == number].tolist()]
            whole = len(rows) // size * size
            # Every process takes each `world`-th row, so that rows that moved up do not form a batch of their own.
            parts = _cut(rows[:whole], size)
            groups += [[part[process :: self.world] for process in range(self.world)] for part in parts]
            carried = rows[whole:]
        rest = self._batches(carried)
        groups = [groups[place] for place in rng.permutation(len(groups))]
        return [batch for group in [*groups, rest] for batch in group]


def _cut(items: Any, size: int) -> list[Any]:
    return [items[start : start + size] for start in range(0, len(items), size)]


class Pair(NamedTuple):
    """A labelled batch and the unlabelled batch that goes with it."""

    labelled: Any
    unlabelled: Any


class Paired:
    """Yield every labelled batch once, each with an unlabelled one; the unlabelled batches repeat as needed."""

    def __init__(self, labelled: Iterable[Any], unlabelled: Iterable[Any]):
        """Both may be any iterable of batches, such as a DataLoader."""
        self.labelled, self.unlabelled = labelled, unlabelled
        self._round = 0
        self._left: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self.labelled)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the labelled batches; the unlabelled ones count their own rounds."""
        _set_epoch(self.labelled, epoch)

    def __iter__(self) -> Iterator[Pair]:
        for batch in self.labelled:
            yield Pair(batch, without_labels(self._next()))

    def _next(self) -> Any:
        """The next unlabelled batch, from a new round when one ends; rounds run on over epochs."""
        if self._left is not None and (batch := next(self._left, None)) is not None:
            return batch
        _set_epoch(self.unlabelled, self._round)
        self._round += 1
        self._left = iter(self.unlabelled)
        batch = next(self._left, None)
        if batch is None:
            raise ValueError("there are no unlabelled batches; give a loader with at least one.")
        return batch


def without_labels(batch: Any) -> Any:
    """Return the batch without its labels, so that no unlabelled term can read them."""
    return {name: value for name, value in batch.items() if name != "labels"} if isinstance(batch, dict) else batch


def _set_epoch(loader: Any, epoch: int) -> None:
    """Call `set_epoch` of the first of loader, batch sampler and sampler that has it."""
    for part in (loader, getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)):
        if (set_epoch := getattr(part, "set_epoch", None)) is not None:
            set_epoch(epoch)
            return
