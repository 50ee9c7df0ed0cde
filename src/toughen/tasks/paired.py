"""Unlabelled batches beside labelled ones, for methods that learn from both (VAT)."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """A labelled batch and the unlabelled batch that goes with it."""

    labelled: Any
    unlabelled: Any


class Paired:
    """Goes once through the labelled batches and round and round through the unlabelled ones."""

    def __init__(self, labelled: Iterable[Any], unlabelled: Iterable[Any]):
        """Both may be any iterable of batches, such as a DataLoader."""
        self.labelled, self.unlabelled = labelled, unlabelled
        self._round = 0
        self._left: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self.labelled)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the labelled batches; the unlabelled ones count their own rounds."""
        _tell(self.labelled, epoch)

    def __iter__(self) -> Iterator[Pair]:
        for batch in self.labelled:
            yield Pair(batch, without_labels(self._next()))

    def _next(self) -> Any:
        """The next unlabelled batch, from a new round when one ends; rounds run on over epochs."""
        if self._left is not None and (batch := next(self._left, None)) is not None:
            return batch
        _tell(self.unlabelled, self._round)
        self._round += 1
        self._left = iter(self.unlabelled)
        batch = next(self._left, None)
        if batch is None:
            raise ValueError("there are no unlabelled batches; give a loader with at least one.")
        return batch


def without_labels(batch: Any) -> Any:
    """The batch less its labels, so that none can leak into an unlabelled term."""
    return {name: value for name, value in batch.items() if name != "labels"} if isinstance(batch, dict) else batch


def _tell(loader: Any, epoch: int) -> None:
    """Tell the first of loader, batch sampler and sampler that wants to know."""
    for part in (loader, getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)):
        if (tell := getattr(part, "set_epoch", None)) is not None:
            tell(epoch)
            return
