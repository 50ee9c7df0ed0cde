"""What a comparison is: WHAT is compared."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from .model_outputs import ModelOutputs


class Compare(Protocol):
    """WHAT to compare: a scalar from the perturbed outcome and a reference (the clean pass, or a teacher)."""

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor: ...


@runtime_checkable
class HasComponents(Protocol):
    """A comparison of several terms, which it can name for the report."""

    def components(
        self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]: ...
