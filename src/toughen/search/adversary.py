"""HOW to find which attention pairs to hide: a learnt adversary, trained by gradient reversal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import MethodError
from ..schedules import Scheduled, minimum, value_at
from ..sites.base import Activation, AttentionActivation, LayerSpec
from .mask_function import MaskConfig, StraightThroughMask

INIT_STD = 0.02  # as the original's, which is BERT's


class Projection(nn.Module):
    """A linear map. Not an nn.Linear, so that nothing that looks for a model's linear layers takes it for one."""

    def __init__(self, width: int, out: int, std: float, random: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, width).normal_(0, std, generator=random))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class MaskAdversary(nn.Module):
    """One layer's adversary: a bilinear score for every pair of positions, for all heads or each of them."""

    def __init__(self, width: int, masks: int, rank: int, std: float, random: torch.Generator) -> None:
        super().__init__()
        self.masks = masks
        self.query = Projection(width, masks * rank, std, random)
        self.key = Projection(width, masks * rank, std, random)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        if not torch.is_autocast_enabled(hidden.device.type):
            hidden = hidden.to(self.query.weight.dtype)
        return self._split(self.query(hidden)), self._split(self.key(hidden))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.masks, -1)).transpose(1, 2)


@dataclass(frozen=True)
class GradientReversalAdversary:
    """An adversary for each layer, in the same backward pass as the model (ASA, Wu et al., AAAI 2023).

    A pair of positions is visible with probability sigmoid(score): the sample is binary in the forward pass, its
    gradient that of the binary concrete relaxation (Maddison et al. 2017) at `temperature`. `visible` is the share of
    pairs an adversary without an opinion leaves visible. `rank` is the width of its queries and keys (None: the
    model's). Queries and keys of one adversary serve all heads, or with `per_head` each head has its own.

    `rate` is the adversary's learning rate as a multiple of the optimizer's. An optimizer of Adam's kind undoes any
    factor on a gradient, so the weights are kept in units of `rate` instead: rate * weight is what acts, and one step
    of any optimizer moves it `rate` times as far. `strength` scales the reversed gradient.

    `as_published` is the authors' code: no noise, pairs are visible where the score is positive, -10000 where not,
    rows may lose all keys, and numbers of pairs are counted, not shares.
    """

    acts_on: ClassVar[str] = "attention"

    temperature: Scheduled = 1.0
    visible: float = 0.9
    rank: int | None = 64
    per_head: bool = False
    rate: float = 1.0
    strength: Scheduled = 1.0
    as_published: bool = False
    steps: int = 0

    def __post_init__(self) -> None:
        if not (minimum(self.temperature) > 0 and self.rate > 0 and minimum(self.strength) >= 0):
            raise MethodError(
                f"GradientReversalAdversary(temperature={self.temperature}, rate={self.rate}, "
                f"strength={self.strength}): temperature and rate must be above 0, and the strength not negative."
            )
        if not 0 < self.visible < 1:
            raise MethodError(f"visible={self.visible}: the share of pairs visible at first lies between 0 and 1.")
        if self.rank is not None and self.rank < 1:
            raise MethodError(f"rank={self.rank}: the adversary's queries and keys need a width of at least 1.")

    def build(self, places: Sequence[LayerSpec], random: torch.Generator) -> nn.Module:
        return nn.ModuleDict({str(place.number): self._adversary(place, random) for place in places})

    def _adversary(self, place: LayerSpec, random: torch.Generator) -> MaskAdversary:
        masks = place.heads if self.per_head else 1
        widest = max(place.width // masks, 1)
        rank = widest if self.rank is None else min(self.rank, widest)
        return MaskAdversary(place.width, masks, rank, INIT_STD / self.rate, random)

    def propose(self, module: nn.Module, view: AttentionActivation) -> tuple[Tensor, Tensor]:
        query, key = cast(nn.ModuleDict, module)[str(view.place)](view.value)
        if view.pairs is not None and view.pairs.shape[1] not in (1, query.shape[1]):
            raise MethodError(
                f"attention_mask has a mask for each of {view.pairs.shape[1]} heads, and the adversary one for all of "
                "them. Use toughen.asa(per_head=True)."
            )
        queries = None if self.as_published else view.queries
        draw = None if self.as_published else view.key
        hide: Any = StraightThroughMask.apply
        return hide(query, key, draw, view.pairs, queries, self._rule(query.shape[-1], view), view.compute)

    def _rule(self, rank: int, view: AttentionActivation) -> MaskConfig:
        return MaskConfig(
            scale=self.rate**2 / math.sqrt(rank),
            offset=math.log(self.visible / (1 - self.visible)),
            temperature=value_at(self.temperature, view.clock),
            reverse=value_at(self.strength, view.clock) / self.rate,
            slope=1e4 if self.as_published else 1.0,
            hidden=-1e4 if self.as_published else None,
            spare_rows=not self.as_published,
            share=not self.as_published,
        )

    def start(self, view: Activation) -> Tensor:
        raise MethodError("Reversal is asked in every pass and starts nothing. It belongs to site=AttentionLogits().")

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return list(deltas)

    def project_final(self, delta: Tensor, view: Activation) -> Tensor:
        return delta
