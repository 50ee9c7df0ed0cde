"""Batches of rows of like length: grouped loosely, or in buckets of fixed padded lengths."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from ._extra import extra


def lengths(dataset: Any) -> Any:
    """The number of tokens of every row, read from Arrow's offsets without loading a token."""
    compute = extra("pyarrow.compute")
    counts = [_chunk_lengths(chunk, compute) for chunk in dataset.data["input_ids"].chunks]
    found = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    # A selection of rows is a list of their numbers beside the whole table.
    return found if dataset._indices is None else found[dataset._indices.column(0).to_numpy()]


def _chunk_lengths(chunk: Any, compute: Any) -> Any:
    inner = compute.list_value_length(chunk).to_numpy(zero_copy_only=False)
    if not extra("pyarrow").types.is_list(chunk.type.value_type):
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

    def _dice(self) -> np.random.Generator:
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
        dice = self._dice()
        order = dice.permutation(len(self.lengths))
        stretches = _cut(order, self.batch_size * self.stretch)
        rows = [row for part in stretches for row in part[np.argsort(-self.lengths[part], kind="stable")].tolist()]
        batches = self._batches(rows)
        # Groups of `world` neighbours stay together, so that processes pad alike; the longest comes first,
        # so that memory runs out at once or not at all.
        groups = _cut(batches, self.world)
        ragged = groups.pop() if groups and len(groups[-1]) < self.world else []
        shuffled = [groups[place] for place in dice.permutation(len(groups))]
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
        dice = self._dice()
        order = dice.permutation(len(self.lengths))
        bucket = np.searchsorted(self.edges, self.lengths[order], side="left")
        groups: list[list[list[int]]] = []
        carried: list[int] = []
        # A group is one batch for each process: all of them replay the same graph in the same step.
        size = self.batch_size * self.world
        for number in range(len(self.edges)):
            rows = [*carried, *order[bucket == number].tolist()]
            whole = len(rows) // size * size
            # Dealt out like cards, so that rows that moved up do not make a batch of their own.
            hands = _cut(rows[:whole], size)
            groups += [[hand[process :: self.world] for process in range(self.world)] for hand in hands]
            carried = rows[whole:]
        rest = self._batches(carried)
        groups = [groups[place] for place in dice.permutation(len(groups))]
        return [batch for group in [*groups, rest] for batch in group]


def _cut(items: Any, size: int) -> list[Any]:
    return [items[start : start + size] for start in range(0, len(items), size)]
