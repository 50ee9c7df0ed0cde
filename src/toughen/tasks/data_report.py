"""Report on data before training: classes, repeated and shared rows, empty and cut texts."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import numpy as np

from ..errors import count_of
from .spec import Data, Task
from .tokenising import tokeniser

_SAMPLE = 2000
_SMALL = 100  # validation rows, below which an accuracy is known to no better than ten points


@dataclass(frozen=True)
class DataReport:
    """A readable report: print it.

    Args:
        task: The name of the task.
        rows: Split -> number of rows.
        max_length: Tokens at which texts are cut.
        notes: What was noted while reading.

    Examples:
        >>> print(toughen.tasks.DataReport("mine", {"train": 800}))
        mine: train 800 rows
    """

    task: str
    rows: Mapping[str, int]
    balance: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Split -> label -> rows."""
    empty: Mapping[str, int] = field(default_factory=dict[str, int])
    """Split -> rows with an empty text."""
    repeated: Mapping[str, int] = field(default_factory=dict[str, int])
    """Split -> rows that are there before in the same split."""
    shared: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Two splits -> rows of the second that are in the first too."""
    conflicts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Split -> texts that are there with several labels."""
    alike: tuple[tuple[str, str], ...] = ()
    """Labels that differ in case, blanks or signs alone."""
    truncated: Mapping[str, float] = field(default_factory=dict[str, float])
    """Split -> share of rows cut at `max_length`."""
    max_length: int | None = None
    longest: int | None = None
    """Tokens the model reads at most, where that is known."""
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a second look."""
        found: list[str] = []
        for split, count in self.empty.items():
            found += [f"{split}: {count_of(count, 'row')} with an empty text"] if count else []
        for (first, second), count in self.shared.items():
            found += [f"{count_of(count, 'row')} of {second} also in {first}: scores may be too high"] if count else []
        for split, count in self.conflicts.items():
            texts = "1 text comes" if count == 1 else f"{count:,} texts come"
            found += [f"{split}: {texts} with several labels: no model can learn that"] if count else []
        found += [
            f"labels {one!r} and {other!r} are two classes: if they mean one, write one" for one, other in self.alike
        ]
        single = [label for label, count in self.balance.get("train", {}).items() if count == 1]
        if single:
            found.append(f"train: one row alone of {', '.join(single[:5])}{', ...' if len(single) > 5 else ''}")
        small = self.rows.get("validation", _SMALL)
        if 0 < small < _SMALL:
            error = 1.96 / small**0.5  # of a correlation; an accuracy is known to half of it at worst
            score = f"score on them is known to about {50 * error:.0f} points"
            score = score if self.balance else f"correlation on them is known to about {error:.2f}"
            found.append(f"validation: {small} rows: a {score} up or down")
        for split, classes in self.balance.items():
            missing = [label for label, count in classes.items() if not count]
            if missing:
                found.append(f"{split}: no row of {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}")
        most = self.longest is not None and (self.max_length or 0) >= self.longest
        way = ", and the model reads no more" if most else ": raise max_length (--data.max_length)"
        for split, share in self.truncated.items():
            if share > 0.05:
                found.append(f"{split}: {share:.1%} of the rows are cut at {self.max_length} tokens{way}")
        return tuple(found)

    def __str__(self) -> str:
        """The report, a fact a line."""
        lines = [
            f"{self.task}: " + ", ".join(f"{split} {count_of(count, 'row')}" for split, count in self.rows.items())
        ]
        for split, classes in self.balance.items():
            total = sum(classes.values()) or 1
            shares = [f"{label} {count / total:.1%}" for label, count in classes.items()]
            more = f", and {len(shares) - 8} more" if len(shares) > 8 else ""
            lines.append(f"  {split} labels: {', '.join(shares[:8])}{more}")
        repeats = [f"{split} {count:,}" for split, count in self.repeated.items() if count]
        lines += [f"  rows that repeat within a split: {', '.join(repeats)}"] if repeats else []
        if self.truncated:
            cut = ", ".join(f"{split} {share:.1%}" for split, share in self.truncated.items())
            lines.append(f"  cut at {self.max_length} tokens: {cut}")
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)


def data_report(
    data: Data, tokenizer: Any = None, max_length: int | None = None, longest: int | None = None
) -> DataReport:
    """Look through all rows once. The share that is cut is measured on at most 2,000 rows a split.

    `longest` is what the model reads at most; without it the tokenizer's word is taken.
    """
    task = data.task
    splits = {name: split for name, split in data.splits.items() if hasattr(split, "__len__")}
    looks = {name: _look(split, task) for name, split in splits.items()}
    hashes = {name: numbers for name, (numbers, _) in looks.items()}
    truncated: dict[str, float] = {}
    if tokenizer is not None:
        longest = longest or int(tokenizer.model_max_length)
        max_length = max_length or longest
        truncated = {name: _cut_share(split, task, tokenizer, max_length) for name, split in splits.items()}
    return DataReport(
        task=task.title,
        rows={name: len(split) for name, split in splits.items()},
        balance={name: counts for name, split in splits.items() if (counts := _balance(split, task))},
        conflicts={name: _conflicts(split, task, hashes[name]) for name, split in splits.items()},
        alike=tuple(_alike(task)),
        empty={name: empty for name, (_, empty) in looks.items()},
        repeated={name: len(numbers) - len(np.unique(numbers)) for name, numbers in hashes.items()},
        shared={
            (first, second): int(np.isin(hashes[second], hashes[first]).sum())
            for first, second in combinations(splits, 2)
        },
        truncated=truncated,
        max_length=max_length,
        longest=longest,
        notes=data.notes,
    )


def _look(split: Any, task: Task) -> tuple[Any, int]:
    """Return a 64-bit number for the texts of every row, so that a set of any size fits; and the rows without text."""
    texts = [name for name in task.columns if name not in ("question", "choices", "tokens") or task.kind == "pair"]
    hashes: list[int] = []
    empty = 0
    for batch in split.select_columns(list(task.columns)).iter(1000):
        hashes += [hash(repr(row)) for row in zip(*(batch[name] for name in task.columns), strict=True)]
        empty += sum(not all(map(str.strip, row)) for row in zip(*(batch[name] for name in texts), strict=True))
    return np.array(hashes, dtype=np.int64), empty


def _conflicts(split: Any, task: Task, hashes: Any) -> int:
    """Return how many texts have rows of several classes."""
    if not task.is_single_label or "label" not in split.column_names:
        return 0
    pairs = np.unique(np.stack([hashes, np.array(split["label"][:], dtype=np.int64)]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


def _alike(task: Task) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for label in task.labels:
        plain = re.sub(r"[\W_]+", "", label.casefold())
        if any(map(str.isalpha, plain)) and plain in seen:
            yield seen[plain], label
        seen.setdefault(plain, label)


def _balance(split: Any, task: Task) -> dict[str, int]:
    if task.head == "regression" or "label" not in split.column_names:
        return {}
    labels = split["label"][:]
    counts = Counter[int](chain.from_iterable(labels) if task.head in ("tokens", "multilabel") else labels)
    balance = {label: counts[number] for number, label in enumerate(task.labels)}
    return balance if any(balance.values()) else {}


def _cut_share(split: Any, task: Task, tokenizer: Any, max_length: int) -> float:
    rows = split
    if len(split) > _SAMPLE:
        rows = split.select(np.sort(np.random.default_rng(0).permutation(len(split))[:_SAMPLE]))
    work = tokeniser(task, tokenizer, max_length, truncation="do_not_truncate")
    lengths = [len(ids) for ids in work.encode({name: rows[name][:] for name in task.columns})["input_ids"]]
    return float(np.mean(np.array(lengths) > max_length))
