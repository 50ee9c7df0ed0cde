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
from .base import SearchDefaults
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
class GradientReversalAdversary(SearchDefaults):
    """An adversary for each layer, in the same backward pass as the model (ASA, Wu et al., AAAI 2023).

    A pair of positions is visible with probability sigmoid(score): the sample is binary in the forward pass, its
    gradient that of the binary concrete relaxation (Maddison et al. 2017) at `temperature`. `keep_prob` is the share of
    pairs an adversary without an opinion leaves visible. `rank` is the width of its queries and keys (None: the
    model's). Queries and keys of one adversary serve all heads, or with `per_head` each head has its own.

    `lr_multiplier` is the adversary's learning rate as a multiple of the optimizer's. An optimizer of Adam's kind
    undoes any factor on a gradient, so the weights are kept in units of `lr_multiplier` instead: lr_multiplier * weight
    is what acts, and one step of any optimizer moves it that many times as far. `reversal_strength` scales the reversed
    gradient.

    `original_code` is the authors' code: no noise, pairs are visible where the score is positive, -10000 where not,
    rows may lose all keys, and numbers of pairs are counted, not shares.
    """

    acts_on: ClassVar[str] = "attention"

    temperature: Scheduled = 1.0
    keep_prob: float = 0.9
    rank: int | None = 64
    per_head: bool = False
    lr_multiplier: float = 1.0
    reversal_strength: Scheduled = 1.0
    original_code: bool = False
    steps: int = 0

    def __post_init__(self) -> None:
        if not (minimum(self.temperature) > 0 and self.lr_multiplier > 0 and minimum(self.reversal_strength) >= 0):
            raise MethodError(
                f"GradientReversalAdversary(temperature={self.temperature}, lr_multiplier={self.lr_multiplier}, "
                f"reversal_strength={self.reversal_strength}): temperature and lr_multiplier must be above 0, and "
                "reversal_strength not negative."
            )
        if not 0 < self.keep_prob < 1:
            raise MethodError(f"keep_prob={self.keep_prob}: the share of pairs visible at first lies between 0 and 1.")
        if self.rank is not None and self.rank < 1:
            raise MethodError(f"rank={self.rank}: the adversary's queries and keys need a width of at least 1.")

    def build(self, layers: Sequence[LayerSpec], random: torch.Generator) -> nn.Module:
        return nn.ModuleDict({str(layer.number): self._adversary(layer, random) for layer in layers})

    def _adversary(self, layer: LayerSpec, random: torch.Generator) -> MaskAdversary:
        masks = layer.heads if self.per_head else 1
        widest = max(layer.width // masks, 1)
        rank = widest if self.rank is None else min(self.rank, widest)
        return MaskAdversary(layer.width, masks, rank, INIT_STD / self.lr_multiplier, random)

    def propose(self, module: nn.Module, view: AttentionActivation) -> tuple[Tensor, Tensor]:
        query, key = cast(nn.ModuleDict, module)[str(view.index)](view.value)
        if view.pairs is not None and view.pairs.shape[1] not in (1, query.shape[1]):
            raise MethodError(
                f"attention_mask has a mask for each of {view.pairs.shape[1]} heads, and the adversary one for all of "
                "them. Use toughen.asa(per_head=True)."
            )
        queries = None if self.original_code else view.queries
        noise_key = None if self.original_code else view.noise_key
        hide: Any = StraightThroughMask.apply
        return hide(query, key, noise_key, view.pairs, queries, self._mask_config(query.shape[-1], view), view.compute)

    def _mask_config(self, rank: int, view: AttentionActivation) -> MaskConfig:
        return MaskConfig(
            scale=self.lr_multiplier**2 / math.sqrt(rank),
            offset=math.log(self.keep_prob / (1 - self.keep_prob)),
            temperature=value_at(self.temperature, view.progress),
            reversal=value_at(self.reversal_strength, view.progress) / self.lr_multiplier,
            slope=1e4 if self.original_code else 1.0,
            hidden_value=-1e4 if self.original_code else None,
            keep_own_pair=not self.original_code,
            count_share=not self.original_code,
        )

    def start(self, view: Activation) -> Tensor:
        raise MethodError("GradientReversalAdversary works only with site=AttentionLogits().")
