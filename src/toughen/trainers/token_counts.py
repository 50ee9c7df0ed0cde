"""Counts the real tokens of a batch while it is still on the CPU, so that a captured step can leave padding out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..cuda_graphs.packing import real_tokens

COUNT = "toughen_real_tokens"


@dataclass(frozen=True)
class TokenCountCollator:
    """A collator whose batches carry the count as a plain number."""

    collate: Callable[[Any], dict[str, Any]]
    pad: int | None = None  # the token that stands for padding

    def __call__(self, rows: Any) -> dict[str, Any]:
        batch = self.collate(rows)
        return {**batch, COUNT: real_tokens(batch, self.pad)}
