"""Batch rows: padding, and batches of rows of similar length."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Sampler

from ..errors import require
from .spec import Head, Task
from .tokenising import IGNORED, TOKEN_COLUMNS, token_columns

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Collate:
    """Pad to the longest row, to a multiple of it, or to the edge of its length bucket; for every head.

    Args:
        head: The head of the task.
        pad_token_id: The id that fills texts.
        pad_token_type_id: The segment that fills texts.
        padding_side: "right" or "left".
        pad_to_multiple_of: Pad to a multiple of so many tokens.
        edges: Lengths to pad to, for captured steps.

    Examples:
        >>> collate = toughen.tasks.collator(toughen.tasks.task("rte"), tokenizer)
        >>> collate.head, collate.padding_side
        ('classes', 'right')
    """

    head: Head
    pad_token_id: int
    pad_token_type_id: int = 0
    padding_side: str = "right"
    pad_to_multiple_of: int | None = None
    edges: tuple[int, ...] = ()

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Return a batch of tensors with the names that a model takes."""
        names = [name for name in TOKEN_COLUMNS if name in rows[0]]
        # For multiple choice every choice is a row of its own while it is padded.
        flat = {name: [row[name] for row in rows] for name in names}
        if self.head == "choices":
            flat = {name: [choice for choices in values for choice in choices] for name, values in flat.items()}
        length = self.length(max(map(len, flat["input_ids"])))
        fill = {"input_ids": self.pad_token_id, "attention_mask": 0, "token_type_ids": self.pad_token_type_id}
        batch = {name: self._pad(values, fill[name], length) for name, values in flat.items()}
        if self.head == "choices":
            batch = {name: value.view(len(rows), -1, length) for name, value in batch.items()}
        if "labels" in rows[0]:
            labels = [row["labels"] for row in rows]
            kind = torch.float32 if self.head in ("regression", "multilabel") else torch.int64
            tokens = self.head == "tokens"
            batch["labels"] = self._pad(labels, IGNORED, length) if tokens else torch.tensor(labels, dtype=kind)
        return batch

    def length(self, longest: int) -> int:
        """Return the padded length of a batch whose longest row has this many tokens."""
        if self.edges:
            return next((edge for edge in self.edges if edge >= longest), longest)
        step = self.pad_to_multiple_of or 1
        return -(-longest // step) * step

    def _pad(self, rows: Sequence[Sequence[int]], fill: int, length: int) -> torch.Tensor:
        tensors = [torch.as_tensor(row, dtype=torch.int64) for row in rows]
        batch = pad_sequence(tensors, batch_first=True, padding_value=fill, padding_side=self.padding_side)
        more = length - batch.shape[1]
        return pad(batch, (more, 0) if self.padding_side == "left" else (0, more), value=fill)


def rows_of(encoded: Mapping[str, Any], choices: int = 0) -> list[dict[str, Any]]:
    """Turn the output of a tokenizer into rows for the collator; `choices` are how many each row has."""
    columns = token_columns(encoded, choices)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def collator(
    task: Task, tokenizer: Any, *, pad_to_multiple_of: int | None = None, edges: Sequence[int] = ()
) -> Collate:
    """Return the collator of a task for a tokenizer.

    Args:
        task: The task.
        tokenizer: The tokenizer of the model.
        pad_to_multiple_of: Pad to a multiple of so many tokens.
        edges: Lengths to pad to, for captured steps.

    Returns:
        A function from a list of rows to a batch.

    Examples:
        >>> collate = toughen.tasks.collator(toughen.tasks.task("rte"), tokenizer)
    """
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
    """Return the number of tokens of every row (of its longest choice), counted by Arrow without making lists.

    Args:
        dataset: Tokenised rows.

    Returns:
        A number for each row.

    Examples:
        >>> import datasets
        >>> toughen.tasks.lengths(datasets.Dataset.from_dict({"input_ids": [[1, 2, 3], [1, 2]]})).tolist()
        [3, 2]
    """
    compute = require("pyarrow.compute", "tasks")
    ids = dataset.with_format("arrow")["input_ids"][:]
    if require("pyarrow", "tasks").types.is_list(ids.type.value_type):
        counts = compute.list_value_length(compute.list_flatten(ids)).to_numpy(zero_copy_only=False)
        counts = counts.reshape(len(ids), -1).max(axis=1)
    else:
        counts = compute.list_value_length(ids).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64)


@dataclass(eq=False)
class _Batches(Sampler[list[int]], ABC):
    lengths: Sequence[int]
    batch_size: int
    _: KW_ONLY
    seed: int = 0
    rank: int = 0
    """`rank` and `world` are for plain DDP; Trainer and Accelerate split the batches themselves."""
    world: int = 1
    drop_last: bool = False
    epoch: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1 or not 0 <= self.rank < self.world:
            given = f"batch_size={self.batch_size}, rank={self.rank}, world={self.world}"
            raise ValueError(f"{given}: sizes start at 1, ranks at 0.")
        self._lengths = np.asarray(self.lengths, dtype=np.int64)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch's order."""
        self.epoch = epoch

    @abstractmethod
    def plan(self) -> list[list[int]]:
        """Return all batches of the epoch, for all processes together, in order."""

    def __iter__(self) -> Iterator[list[int]]:
        plan = self.plan()
        over = len(plan) % self.world
        if over and self.drop_last:
            plan = plan[:-over]
        elif over:
            # Processes must take as many steps as one another: the first batches come again.
            plan = (plan * self.world)[: len(plan) + self.world - over]
        yield from plan[self.rank :: self.world]

    def __len__(self) -> int:
        rows, size = len(self._lengths), self.batch_size
        if self.drop_last:
            return rows // size // self.world
        return -(-rows // (size * self.world))

    def _batches(self, rows: list[int]) -> list[list[int]]:
        batches = _cut(rows, self.batch_size)
        short = batches and len(batches[-1]) < self.batch_size
        return batches[:-1] if short and self.drop_last else batches


@dataclass(eq=False)
class LengthGrouped(_Batches):
    """Batches of shuffled rows, sorted by length within stretches of `stretch` batches: little padding, random order.

    Every process makes the same plan from seed and epoch, and takes its own batches of it.

    Args:
        lengths: The number of tokens of each row.
        batch_size: Rows of a batch.
        seed: Of the order.
        rank: The number of this process.
        world: How many processes there are.
        drop_last: Drop a short last batch.
        stretch: Batches that are sorted together.

    Examples:
        >>> sampler = toughen.tasks.LengthGrouped([3, 9, 4, 8], batch_size=2)
        >>> sorted(sorted(rows) for rows in sampler)
        [[0, 2], [1, 3]]
    """

    _: KW_ONLY
    stretch: int = 50

    def plan(self) -> list[list[int]]:
        """Return all batches of the epoch, for all processes together, in order."""
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self._lengths))
        stretches = _cut(order, self.batch_size * self.stretch)
        rows = [row for part in stretches for row in part[np.argsort(-self._lengths[part], kind="stable")].tolist()]
        # Groups of `world` neighbours stay together, so that processes pad alike; the longest comes first,
        # so that memory runs out at once or not at all.
        groups = _cut(self._batches(rows), self.world)
        ragged = groups.pop() if groups and len(groups[-1]) < self.world else []
        shuffled = [groups[index] for index in rng.permutation(len(groups))]
        if shuffled:
            longest = max(range(len(shuffled)), key=lambda index: int(self._lengths[shuffled[index][0]].max()))
            shuffled[0], shuffled[longest] = shuffled[longest], shuffled[0]
        return [batch for group in [*shuffled, ragged] for batch in group]


@dataclass(eq=False)
class LengthBucketed(_Batches):
    """Batches of one length bucket each, so that a step captured per padded length can be replayed.

    `edges` are the padded lengths; give the same to the collator. What is left over in a bucket moves up to the next
    longer one; only the last batch of the longest may be short, and `drop_last` drops it.

    Args:
        lengths: The number of tokens of each row.
        batch_size: Rows of a batch.
        edges: The padded lengths.
        seed: Of the order.
        rank: The number of this process.
        world: How many processes there are.
        drop_last: Drop a short last batch.

    Examples:
        >>> sampler = toughen.tasks.LengthBucketed([3, 9, 4, 8], batch_size=2, edges=(4, 16))
        >>> sorted(sorted(rows) for rows in sampler)
        [[0, 2], [1, 3]]
    """

    edges: Sequence[int]

    def __post_init__(self) -> None:
        """Refuse edges that are shorter than a row."""
        super().__post_init__()
        self.edges = sorted(self.edges)
        longest = int(self._lengths.max(initial=0))
        if not self.edges or longest > self.edges[-1]:
            edges = list(map(int, self.edges))
            raise ValueError(f"the longest row has {longest} tokens and the edges are {edges}; add one.")

    def plan(self) -> list[list[int]]:
        """Return all batches of the epoch, for all processes together, in order."""
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self._lengths))
        bucket = np.searchsorted(self.edges, self._lengths[order], side="left")
        groups: list[list[list[int]]] = []
        carried: list[int] = []
        # A group is one batch for each process: all of them replay the same graph in the same step.
        size = self.batch_size * self.world
        for number in range(len(self.edges)):
            rows = [*carried, *order[bucket == number].tolist()]
            full = len(rows) // size * size
            # Every process takes each `world`-th row, so that rows that moved up do not form a batch of their own.
            parts = _cut(rows[:full], size)
            groups += [[part[process :: self.world] for process in range(self.world)] for part in parts]
            carried = rows[full:]
        shuffled = [groups[index] for index in rng.permutation(len(groups))]
        return [batch for group in [*shuffled, self._batches(carried)] for batch in group]


def _cut(items: Any, size: int) -> list[Any]:
    return [items[start : start + size] for start in range(0, len(items), size)]
