"""The four parts a robust fine-tuning method is made of, and what they see of each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from .outcome import Outcome
from .schedule import Clock

Detach: TypeAlias = Callable[[], None]
Dropout: TypeAlias = Literal["shared", "fresh", "off"]


@dataclass(frozen=True)
class View:
    """What a site shows at one of its places: the activation there, and which of its positions may be perturbed."""

    value: Tensor  # detached; (batch, ..., width) for activations
    mask: Tensor | None = None  # 1 where a perturbation may be, broadcastable to `value`; None: everywhere
    place: int = 0  # which of the site's places
    random: torch.Generator | None = field(default=None, repr=False, compare=False)
    clock: Clock = field(default_factory=Clock, repr=False, compare=False)

    @cached_property
    def dtype(self) -> torch.dtype:
        """Perturbations live in float32 (float64 for float64 models): 1e-5 is nothing in bfloat16."""
        return torch.promote_types(self.value.dtype, torch.float32)

    @cached_property
    def count(self) -> Tensor:
        """How many elements of each example may be perturbed, as (batch, 1, ...)."""
        shape = (-1, *[1] * (self.value.dim() - 1))
        if self.mask is None:
            return self.value.new_full((self.value.shape[0],), self.value[0].numel(), dtype=self.dtype).view(shape)
        return self.mask.to(self.dtype).expand(self.value.shape).flatten(1).sum(1).clamp(min=1).view(shape)

    @cached_property
    def rms(self) -> Tensor:
        """Root mean square of each example's activation where it may be perturbed, as (batch, 1, ...)."""
        square = self.masked(self.value.to(self.dtype)).flatten(1).square().sum(1).view(self.count.shape)
        return (square / self.count).sqrt()

    @cached_property
    def lengths(self) -> dict[tuple[float, str], Tensor]:
        """Lengths in units of this view, worked out once a batch (`search.norms.Relative`)."""
        return {}

    @cached_property
    def _factor(self) -> Tensor | None:
        return None if self.mask is None else self.mask.to(self.dtype)

    def masked(self, x: Tensor) -> Tensor:
        return x if self._factor is None else x * self._factor


@dataclass(frozen=True)
class PairView(View):
    """What an attention site shows: `value` is the input of the attention block, and pairs are what may be hidden."""

    pairs: Tensor | None = None  # (batch, 1 or heads, queries, keys), True where the model itself attends; None: all
    queries: Tensor | None = None  # (batch, queries), False for padding; None: all are real
    compute: torch.dtype = torch.float32  # of the attention's logits
    key: Tensor | None = None  # what the random draw is made from, the same in every pass over the batch; None: no draw


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a site, as a search that owns weights must know it beforehand."""

    number: int
    width: int
    heads: int


class Inject(Protocol):
    """What a site calls from inside the forward pass."""

    @property
    def active(self) -> bool: ...  # whether this pass is to be perturbed at all

    @property
    def batch(self) -> Mapping[str, Any]: ...  # the model's inputs

    @property
    def special_ids(self) -> Tensor | None: ...  # ids of special tokens, if known

    def __call__(self, place: int, view: Callable[[], View]) -> Tensor: ...  # what to add there; `view` for the start


@runtime_checkable
class Site(Protocol):
    """WHERE to perturb."""

    def attach(self, model: nn.Module, inject: Inject) -> Detach: ...


class Search(Protocol):
    """HOW to find the perturbation. A search owns no loop: it knows how to start, how to climb and how to finish."""

    @property
    def steps(self) -> int: ...  # ascent steps before the last pass; 0 asks for no gradient

    def start(self, view: View) -> Tensor: ...

    # It may write over the gradients: for weights every copy is felt.
    def climb(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]: ...

    def finish(self, delta: Tensor, view: View) -> Tensor: ...  # what the last pass sees


@runtime_checkable
class LearnedSearch(Protocol):
    """A search with weights of its own, trained with the model's in the same backward pass.

    It is asked anew in every perturbed pass: its answer carries a graph, so it cannot be kept for the next one.
    """

    def build(self, places: Sequence[Place], random: torch.Generator) -> nn.Module: ...

    def ask(
        self, module: nn.Module, view: PairView
    ) -> tuple[Tensor, Tensor]: ...  # what to add; what the budget counts


class Compare(Protocol):
    """WHAT to compare: a scalar from the perturbed outcome and a reference (the clean pass, or a teacher)."""

    def __call__(self, bent: Outcome, clean: Outcome | None, deltas: Sequence[Tensor]) -> Tensor: ...


@runtime_checkable
class Explained(Protocol):
    """A comparison of several terms, which it can name for the report."""

    def explain(
        self, bent: Outcome, clean: Outcome | None, deltas: Sequence[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One coming backward pass, as its driver must know it beforehand."""

    sync: bool  # gradients are exchanged between processes after it
    step: bool = False  # the optimizer steps after it, within the method
    kept: bool = True  # its loss belongs to the objective that is reported


class Pass(Protocol):
    """One micro-batch, as a Combine sees it."""

    @property
    def last(self) -> bool: ...  # whether it closes its accumulation window

    @property
    def clock(self) -> Clock: ...  # how far the training is

    @property
    def window(self) -> Sequence["Pass"]: ...  # the micro-batches of the window so far, this one included

    def clean(self) -> Outcome: ...  # the unperturbed pass, made once
    def again(self) -> Outcome: ...  # one more unperturbed pass
    def task_loss(self) -> Tensor: ...  # the clean pass's loss, or an error that asks for labels
    def find(self) -> None: ...  # run the search
    def term(self) -> Tensor: ...  # a perturbed pass, compared
    def climb(self) -> None: ...  # one search step from the gradients the last backward pass left
    def move_weights(self, keep_gradient: bool) -> Detach: ...  # perturb the weights; returns the way back


class Combine(Protocol):
    """HOW the comparison enters the update: losses, each to be back-propagated before the next is asked for."""

    def turns(self, last: bool, window: int) -> tuple[Turn, ...]: ...

    def __call__(self, batch: Pass) -> Iterator[Tensor]: ...
