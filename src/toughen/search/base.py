"""What a search is: HOW a perturbation is found."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..sites.base import Activation, AttentionActivation, LayerSpec


class Search(Protocol):
    """HOW to find the perturbation. A search owns no loop: it starts, steps, and says what the last pass sees."""

    @property
    def steps(self) -> int: ...  # ascent steps before the last pass; 0 asks for no gradient

    def start(self, view: Activation) -> Tensor: ...

    # It may write over the gradients: a copy for all weights would cost memory.
    def ascend(
        self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]
    ) -> list[Tensor]: ...

    def project_final(self, delta: Tensor, view: Activation) -> Tensor: ...  # what the last pass sees


class SearchDefaults:
    """A perturbation that makes no step, and that the last pass sees as it is."""

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return list(deltas)

    def project_final(self, delta: Tensor, view: Activation) -> Tensor:
        return delta


@runtime_checkable
class SubstitutesWords(Protocol):
    """A search that puts other words in a word's place, and can say of how many."""

    def metrics(self, delta: Tensor, view: Activation) -> dict[str, Tensor]: ...  # for the report

    def count_texts(self, view: Activation) -> Tensor: ...  # texts, and those of them in which no word can change


@runtime_checkable
class LearnedAdversary(Protocol):
    """A search with weights of its own, trained with the model's in the same backward pass.

    Every perturbed pass asks it again: its answer carries a graph, so it cannot be kept for the next one.
    """

    def build(self, layers: Sequence[LayerSpec], random: torch.Generator) -> nn.Module: ...

    def propose(
        self, module: nn.Module, view: AttentionActivation
    ) -> tuple[Tensor, Tensor]: ...  # what to add; what the budget counts
