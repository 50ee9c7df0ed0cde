"""Views of texts, made where batches are made: in the loader's workers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..engine.attached import Attached
from ..engine.text_views import add_views


class CollatorAround:
    """A collator around another, whose attributes stay in sight: Trainers read those of their own."""

    collate: Callable[[Any], Any]

    def __getattr__(self, name: str) -> Any:
        if name == "collate" or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.collate, name)


class ViewCollator(CollatorAround):
    """Puts the views that a method reads beside each batch, so that no step waits for them.

    `DataLoader(data, collate_fn=ViewCollator(collate, attached))`. They are drawn from the seed, the epoch and the
    text; `set_epoch` reaches workers that live on. Without it every epoch has the same views.
    """

    def __init__(self, collate: Callable[[Any], Any], attached: Attached) -> None:
        self.collate, self.makers = collate, attached.view_makers
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __getattr__(self, name: str) -> Any:
        """Return what a Trainer asks of its own collator."""
        if name == "collate" or name.startswith("__"):  # not there yet while a copy is made
            raise AttributeError(name)
        return getattr(self.collate, name)

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __call__(self, rows: Sequence[Any]) -> dict[str, Any]:
        return add_views(self.collate(rows), self.makers, f"epoch {int(self._epoch)}")
