"""From two blocks of scores to one number: in float32, only the rows that count, a large vocabulary in slices."""

from collections.abc import Callable
from typing import Literal, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .model_outputs import Prediction

Pointwise: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Log-probabilities of the perturbed and the clean pass to the summand of a divergence, element by element."""
Reduction: TypeAlias = Literal["mean", "sum"]

VOCAB_CHUNK = 8192  # columns handled at once; above this, float32 copies of the logits would dominate memory


def to_float32(scores: Tensor) -> Tensor:
    """Scores in float32, or float64 if they are that."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def distance(pointwise: Pointwise, perturbed: Prediction, clean: Prediction, reduction: Reduction) -> Tensor:
    """A divergence between two predictions of the same rows: mean over the rows that count, or their sum."""
    rows = _rows(pointwise, perturbed, clean)
    mask = perturbed.mask
    if mask is None:
        return rows.mean() if reduction == "mean" else rows.sum()
    total = torch.where(mask.bool(), rows, torch.zeros_like(rows)).sum()
    return total / mask.sum().clamp(min=1) if reduction == "mean" else total


def distances(pointwise: Pointwise, perturbed: Prediction, clean: Prediction) -> Tensor:
    """A divergence for each example: the mean over its rows that count."""
    rows = _rows(pointwise, perturbed, clean)
    mask = torch.ones_like(rows) if perturbed.mask is None else perturbed.mask.to(rows.dtype)
    total = torch.where(mask.bool(), rows, torch.zeros_like(rows)).flatten(1) if rows.dim() > 1 else rows.unsqueeze(1)
    return total.sum(1) / mask.view(len(rows), -1).sum(1).clamp(min=1)


def _rows(pointwise: Pointwise, perturbed: Prediction, clean: Prediction) -> Tensor:
    """The divergence of each row."""
    if perturbed.kind == "regression":
        return (to_float32(perturbed.scores) - to_float32(clean.scores)).square().mean(-1)
    if perturbed.kind == "multilabel":
        return _bernoulli(pointwise, to_float32(perturbed.scores), to_float32(clean.scores)).mean(-1)
    if perturbed.scores.shape[-1] > VOCAB_CHUNK:
        return _sliced(pointwise, perturbed.scores, clean.scores)
    return pointwise(log_probabilities(perturbed.scores), log_probabilities(clean.scores)).sum(-1)


def log_probabilities(scores: Tensor) -> Tensor:
    """Of each row's distribution, never minus infinity."""
    return _finite(F.log_softmax(to_float32(scores), dim=-1))


def _finite(logs: Tensor) -> Tensor:
    """A class that the head rules out by a score of -inf has probability 0, and 0 times infinity would be no number."""
    return logs.clamp(min=torch.finfo(logs.dtype).min)


def _bernoulli(pointwise: Pointwise, perturbed: Tensor, clean: Tensor) -> Tensor:
    """Each column is a distribution of its own over yes and no."""
    yes = pointwise(F.logsigmoid(perturbed), F.logsigmoid(clean))
    return yes + pointwise(F.logsigmoid(-perturbed), F.logsigmoid(-clean))


def _sliced(pointwise: Pointwise, perturbed: Tensor, clean: Tensor) -> Tensor:
    """The same sum over a vocabulary, slice by slice; each slice is recomputed in the backward pass, not kept."""
    log_sums = [_log_sum_exp(scores) for scores in (perturbed, clean)]

    def part(b: Tensor, c: Tensor, log_b: Tensor, log_c: Tensor) -> Tensor:
        return pointwise(_finite(to_float32(b) - log_b), _finite(to_float32(c) - log_c)).sum(-1)

    pairs = zip(perturbed.split(VOCAB_CHUNK, dim=-1), clean.split(VOCAB_CHUNK, dim=-1), strict=True)
    parts = [_checkpointed(part, b, c, *log_sums) for b, c in pairs]
    return torch.stack(parts).sum(0)


def _log_sum_exp(scores: Tensor) -> Tensor:
    def part(s: Tensor) -> Tensor:
        return to_float32(s).logsumexp(-1, keepdim=True)

    parts = [_checkpointed(part, s) for s in scores.split(VOCAB_CHUNK, dim=-1)]
    return torch.cat(parts, dim=-1).logsumexp(-1, keepdim=True)


def _checkpointed(part: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Computed again in the backward pass. Nothing here is random, and reading the random state would end a capture."""
    return cast(Tensor, checkpoint(part, *inputs, use_reentrant=False, preserve_rng_state=False))
