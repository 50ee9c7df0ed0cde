"""Training data made smaller, noisier or more uneven on purpose, by seed."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .spec import DataError, Task


def limit(split: Any, rows: int, seed: int = 0) -> Any:
    """Return at most that many rows, drawn by seed and kept in their order."""
    if rows < 1:
        raise DataError(f"limit={rows} leaves no rows; give 1 or more.")
    if hasattr(split, "take") and not hasattr(split, "__len__"):
        return split.take(rows)
    if len(split) <= rows:
        return split
    return split.select(np.sort(np.random.default_rng(seed).permutation(len(split))[:rows]))


def few_shot(split: Any, per_class: int, seed: int = 0) -> Any:
    """Return that many rows of every class."""
    if per_class < 1:
        raise DataError(f"few_shot={per_class} leaves no rows; give 1 or more.")
    labels = class_numbers(split)
    drawn: list[Any] = []
    for number in np.unique(labels):
        rows = np.flatnonzero(labels == number)
        if len(rows) < per_class:
            raise DataError(f"few_shot={per_class}, but class {number} has only {len(rows)} rows; ask for fewer.")
        drawn.append(np.random.default_rng((seed, int(number))).permutation(rows)[:per_class])
    return split.select(np.sort(np.concatenate(drawn)))


def label_noise(split: Any, share: float, seed: int = 0) -> Any:
    """Give exactly that share of the rows another class, each other class being as likely."""
    if not 0 <= share <= 1:
        raise DataError(f"label_noise={share} is not a share; give a number from 0 to 1.")
    labels = class_numbers(split)
    classes = split.features["label"].num_classes
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(labels))[: round(share * len(labels))]
    labels[rows] = (labels[rows] + rng.integers(1, classes, size=len(rows))) % classes
    feature = split.features["label"]
    order = split.column_names
    changed = split.remove_columns("label").add_column("label", labels.tolist(), feature=feature)
    return changed.select_columns(order)


def imbalance(split: Any, ratio: float, seed: int = 0) -> Any:
    """Make a long tail: class sizes fall off evenly on a log scale until the last has `ratio` of the first's size.

    The profile of Cui et al., CVPR 2019 (class-balanced loss), section 5; which class is rare is drawn by seed.
    """
    if not 0 < ratio <= 1:
        raise DataError(f"imbalance={ratio} is not a ratio of smallest to largest class; give a number from 0 to 1.")
    labels = class_numbers(split)
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(np.unique(labels))
    smallest = min(int((labels == number).sum()) for number in numbers)
    drawn: list[Any] = []
    for rank, number in enumerate(numbers):
        keep = max(1, round(smallest * ratio ** (rank / max(1, len(numbers) - 1))))
        drawn.append(rng.permutation(np.flatnonzero(labels == number))[:keep])
    return split.select(np.sort(np.concatenate(drawn)))


def hold_out(split: Any, task: Task, share: float, seed: int) -> tuple[Any, Any]:
    """Split rows into training and development rows, each class in the same proportion, equal texts on one side."""
    if not 0 < share < 1:
        raise DataError(f"validation_share={share} is not a share; give a number between 0 and 1.")
    texts = _text_numbers(split, task)
    firsts = np.sort(np.unique(texts, return_index=True)[1])  # where no text repeats, these are all rows
    if len(firsts) < 2:
        count = f"{len(firsts)} training row" if len(split) < 2 else f"{len(split)} training rows of one text"
        raise DataError(f"{task.name!r} has {count}; no development set can be made: give validation_file=.")
    groups = class_numbers(split)[firsts] if task.is_single_label else np.zeros(len(firsts), dtype=np.int64)
    held = firsts[_proportional(groups, max(1, round(share * len(firsts))), np.random.default_rng(seed))]
    mask = np.isin(texts, texts[held])
    return split.select(np.flatnonzero(~mask)), split.select(np.flatnonzero(mask))


def _text_numbers(split: Any, task: Task) -> Any:
    """Return a number for the texts of every row: equal texts have the same."""
    known: dict[str, int] = {}
    numbers: list[int] = []
    for batch in split.select_columns(list(task.columns)).iter(1000):
        rows = zip(*(batch[name] for name in task.columns), strict=True)
        numbers += [known.setdefault(hashlib.sha256(repr(row).encode()).hexdigest(), len(known)) for row in rows]
    return np.array(numbers, dtype=np.int64)


def _proportional(groups: Any, wanted: int, rng: np.random.Generator) -> Any:
    """Draw rows from each group by largest remainder, never the last row of a group."""
    numbers, counts = np.unique(groups, return_counts=True)
    exact = counts * (wanted / len(groups))
    take = np.floor(exact).astype(int)
    for group in np.argsort(-(exact - take), kind="stable"):
        if take.sum() >= wanted:
            break
        take[group] += 1
    take = np.minimum(take, counts - 1)
    drawn = [
        rng.permutation(np.flatnonzero(groups == number))[:amount] for number, amount in zip(numbers, take, strict=True)
    ]
    return np.concatenate(drawn)


def class_numbers(split: Any) -> Any:
    """Return the class of every row as a new array."""
    labels: Sequence[Any] = split.with_format("numpy", columns=["label"])["label"][:]
    numbers = np.array(labels)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise DataError("this needs one class a row; it is not for regression, tokens or several labels.")
    return numbers
