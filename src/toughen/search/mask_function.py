"""From an adversary's scores to hidden attention pairs, and back. Nothing of size L x L is kept for the backward."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ..kernels import mask_function as kernels
from .counter_rng import Words, draw_words, logistic_noise


@dataclass(frozen=True)
class MaskConfig:
    """How scores become a mask. A pair is visible where its score, with noise, is above 0."""

    scale: float  # of query times key
    offset: float  # added to every score
    temperature: float | Tensor  # of the sigmoid that stands for the step function in the backward pass
    reversal: float | Tensor  # the adversary gets minus this much of the gradient
    slope: float  # of the additive mask in the visibility, in the backward pass
    hidden_value: float | None  # the additive mask where a pair is hidden; None: the lowest number
    keep_own_pair: bool  # no query loses all its keys
    count_share: bool  # count the visible pairs as a share of all, not as a number


class StraightThroughMask(torch.autograd.Function):
    """Straight-through hiding with a reversed gradient.

    Forward: (queries, keys) of the adversary to the attention's whole additive mask, in its own dtype, and to how much
    of each example is visible. Backward: the scores and the noise of pairs are computed again. Our kernels make each of
    the two one pass over memory.

    The slope 1 of the recommended config is the exact gradient of p_j = m_j exp(s_j) / sum_k m_k exp(s_k) in m_j where
    m_j = 1: hiding is taken as multiplication in probability space. A hidden pair has p_j = 0 and gets its gradient
    from the budget alone, in the published form too, whose slope is 10000.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        noise_key: Tensor | None,
        pairs: Tensor | None,
        queries: Tensor | None,
        config: MaskConfig,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        words: Words | None = None
        low = torch.finfo(dtype).min if config.hidden_value is None else config.hidden_value
        if kernels.fits(query, pairs):
            rows = kernels.Rows(query @ key.mT, noise_key, pairs, queries)
            bias, kept, among = kernels.hide(rows, config.scale, config.offset, low, config.keep_own_pair, dtype)
            count = among.clamp(min=1) if config.count_share else torch.full_like(among, query.shape[1])
        else:
            batch, masks, length, _ = query.shape
            words = None if noise_key is None else draw_words(noise_key, batch, masks, length, queries)
            bias, kept = _hidden(_scores(query, key, words, config), pairs, queries, config, low, dtype)
            count = _counts(query, pairs, queries, config)
        ctx.save_for_backward(query, key, noise_key, pairs, queries, count, *(words or ()))
        ctx.config = config
        return bias, kept / count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, noise_key, pairs, queries, count, *words = ctx.saved_tensors
        config: MaskConfig = ctx.config
        grad_bias, grad_kept = grads
        price, factor = grad_kept / count, -config.reversal * config.scale / config.temperature
        if kernels.fits(query, pairs):
            rows = kernels.Rows(query @ key.mT, noise_key, pairs, queries)
            sharpness = 1 / config.temperature
            grad = kernels.score_gradient(
                rows, grad_bias, price, config.scale, config.offset, config.slope, sharpness, factor
            )
            return grad @ key, grad.mT @ query, None, None, None, None, None
        soft = _scores(query, key, cast(Words, words) or None, config).div_(config.temperature).sigmoid_()
        grad = torch.add(price.view(-1, 1, 1, 1), grad_bias, alpha=config.slope)
        grad.mul_(soft).mul_(soft.neg_().add_(1))  # the sigmoid's derivative
        for real in (pairs, None if queries is None else queries[:, None, :, None]):
            if real is not None:
                grad.mul_(real)
        grad = grad.mul_(factor).to(query.dtype)
        return grad @ key, grad.mT @ query, None, None, None, None, None


def _hidden(
    scores: Tensor, pairs: Tensor | None, queries: Tensor | None, config: MaskConfig, low: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The additive mask, and for each example the number of visible pairs."""
    visible = scores > 0
    if queries is not None:
        visible |= ~queries[:, None, :, None]  # padding's own rows are left as they are
    if pairs is not None:
        visible &= pairs
    if config.keep_own_pair:
        empty, itself = ~visible.any(-1), visible.diagonal(dim1=-2, dim2=-1)
        itself |= empty if pairs is None else empty & pairs.diagonal(dim1=-2, dim2=-1)
    counted = visible if queries is None else visible & queries[:, None, :, None]
    kept = counted.sum((1, 2, 3), dtype=torch.float32).to(scores.dtype)
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, low), kept


def _scores(query: Tensor, key: Tensor, words: Words | None, config: MaskConfig) -> Tensor:
    scores = (query @ key.mT).to(torch.promote_types(query.dtype, torch.float32))
    scores.mul_(config.scale)
    if config.offset:
        scores.add_(config.offset)
    return scores if words is None else scores.add_(logistic_noise(words, scores.dtype))


def _counts(query: Tensor, pairs: Tensor | None, queries: Tensor | None, config: MaskConfig) -> Tensor:
    """Return the divisor of each example's visible pairs: the masks, and with `count_share` the real pairs."""
    batch, masks, length, _ = query.shape
    if not config.count_share or (pairs is None and queries is None):
        return query.new_full((batch,), masks * (length**2 if config.count_share else 1), dtype=torch.float32)
    if pairs is None:
        assert queries is not None
        return queries.sum(1, dtype=torch.float32).clamp(min=1) * length * masks
    real = pairs if queries is None else pairs & queries[:, None, :, None]
    total = real.expand(batch, *real.shape[1:]).sum((1, 2, 3), dtype=torch.float32).clamp(min=1)
    return total * (masks // real.shape[1])
