"""What a site is, and what it shows of the model: WHERE a perturbation is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from ..schedules import TrainingProgress

Detach: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class EmbeddedTokens:
    """The tokens behind an embedding's output."""

    ids: Tensor  # (batch, length)
    embed: Callable[[Tensor], Tensor]  # the model's own embedding, which may scale its table (Gemma, BART)


@dataclass(frozen=True)
class CandidateTable:
    """Which tokens may stand in the place of each token of the vocabulary."""

    ids: Tensor  # (vocabulary, candidates); the token's own id where it has no more of them
    continues: Tensor  # (vocabulary,), True for tokens that go on with the word of the token before

    def to(self, device: torch.device) -> "CandidateTable":
        return self if self.ids.device == device else CandidateTable(self.ids.to(device), self.continues.to(device))


@dataclass(frozen=True)
class Activation:
    """What a site shows of the model: one activation, and which of its positions may be perturbed."""

    value: Tensor  # detached; (batch, ..., width) for activations
    mask: Tensor | None = None  # 1 where a perturbation may be, broadcastable to `value`; None: everywhere
    index: int = 0  # which of the site's activations
    random: torch.Generator | None = field(default=None, repr=False, compare=False)
    progress: TrainingProgress = field(default_factory=TrainingProgress, repr=False, compare=False)
    tokens: EmbeddedTokens | None = field(default=None, repr=False, compare=False)  # at the input embedding
    candidates: CandidateTable | None = field(default=None, repr=False, compare=False)  # for searches that ask for it

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
        mask = self.mask.expand(self.value.shape[0], *self.mask.shape[1:])
        places = mask.flatten(1).sum(1, dtype=self.dtype) * (self.value.numel() // mask.numel())
        return places.clamp(min=1).view(shape)

    @cached_property
    def texts(self) -> Tensor:
        """Which examples have a position to perturb, as (batch,)."""
        if self.mask is None:
            return torch.ones(self.value.shape[0], dtype=torch.bool, device=self.value.device)
        return self.mask.flatten(1).any(1)

    @cached_property
    def l2(self) -> Tensor:
        """The l2 norm of each example's activation where it may be perturbed, as (batch, 1, ...)."""
        value = self.masked(self.value.to(self.dtype))
        return torch.linalg.vector_norm(value, dim=tuple(range(1, value.dim())), keepdim=True)

    @cached_property
    def rms(self) -> Tensor:
        """Root mean square of each example's activation where it may be perturbed, as (batch, 1, ...)."""
        return self.l2 / self.count.sqrt()

    @cached_property
    def lengths(self) -> dict[tuple[float, str], Tensor]:
        """Lengths in units of this view, worked out once a batch (`search.norms.Relative`)."""
        return {}

    @cached_property
    def memory(self) -> dict[str, Tensor]:
        """What a search keeps from its start to the last pass over the batch."""
        return {}

    @cached_property
    def _factor(self) -> Tensor | None:
        return None if self.mask is None else self.mask.to(self.dtype)

    def masked(self, x: Tensor) -> Tensor:
        return x if self._factor is None else x * self._factor


@dataclass(frozen=True)
class AttentionActivation(Activation):
    """What an attention site shows: `value` is the input of the attention block, and pairs are what may be hidden."""

    pairs: Tensor | None = None  # (batch, 1 or heads, queries, keys), True where the model itself attends; None: all
    queries: Tensor | None = None  # (batch, queries), False for padding; None: all are real
    compute: torch.dtype = torch.float32  # of the attention's logits
    noise_key: Tensor | None = None  # of the random draw, the same in every pass over the batch; None: no draw


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer of a site, as a search that owns weights must know it beforehand."""

    number: int
    width: int
    heads: int


class PerturbationSource(Protocol):
    """What a site calls from inside the forward pass."""

    @property
    def active(self) -> bool: ...  # whether this pass is to be perturbed at all

    @property
    def batch(self) -> Mapping[str, Any]: ...  # the model's inputs

    @property
    def special_ids(self) -> Tensor | None: ...  # ids of special tokens, if known

    def __call__(
        self, index: int, view: Callable[[], Activation]
    ) -> Tensor: ...  # what to add there; `view` for the start


@runtime_checkable
class Site(Protocol):
    """WHERE to perturb.

    It may declare its `target`, and whether it lies `inside_layers` (`toughen.needs`).
    """

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach: ...
