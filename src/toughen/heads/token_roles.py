"""Find which tokens of a batch are words, and which one is the class token."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..internal.foreach import at_least_float32, no_autocast
from .configuration import SecondOrderConfig
from .covariance import token_weights, weighted_mean


def real_tokens(config: SecondOrderConfig, inputs: dict[str, Any], length: int) -> Tensor | None:
    """Return the mask (B, length) of tokens that are no padding; None if there is no padding.

    The tokens of images stand behind those of the text, whose mask does not have them.
    """
    mask = inputs.get("attention_mask")
    if mask is not None:
        if mask.dim() != 2:
            raise ValueError(
                f"attention_mask has {mask.dim()} dimensions; the head needs the padding mask (B, L) to tell words "
                "from padding."
            )
        has_images = any(name in inputs for name in ("pixel_values", "image", "visual_embeds"))
        return F.pad(mask, (0, length - mask.shape[1]), value=1) if has_images and mask.shape[1] < length else mask
    ids, pad = inputs.get("input_ids"), config.pad_token_id
    if config.class_token == "last" and ids is not None and pad is not None:
        return ids != pad  # as the decoder classifiers of transformers do
    return None


def class_index(config: SecondOrderConfig, tokens: Tensor, real: Tensor | None) -> Tensor | None:
    """Return the position of the class token in each row; None stands for 0."""
    if config.class_token == "first":
        # With padding on the left the first real token is not at 0.
        return None if real is None else real.int().argmax(1)
    if real is None:
        return torch.full(tokens.shape[:1], tokens.shape[1] - 1, device=tokens.device)
    positions = torch.arange(real.shape[1], device=real.device)
    return (real.ne(0) * positions).argmax(1)


def mean_of(tokens: Tensor, real: Tensor | None) -> Tensor:
    """Return the mean (B, D) of the tokens that are no padding."""
    if real is None:
        return tokens.mean(1)
    with no_autocast(tokens):
        full = at_least_float32(tokens)
        return weighted_mean(full, token_weights(full, real)).squeeze(1).to(tokens.dtype)


def without_prefix(config: SecondOrderConfig, tokens: Tensor) -> Tensor:
    """Drop from tokens (B, N, D) of an image those between the class token and the patches.

    Cut out and not masked: they are no padding, which a head without `masked` lets in.
    """
    if config.prefix_tokens <= 1:
        return tokens
    return torch.cat([tokens[:, :1], tokens[:, config.prefix_tokens :]], dim=1)


def word_mask(
    config: SecondOrderConfig, real: Tensor | None, inputs: dict[str, Any], special: Tensor | None
) -> Tensor | None:
    """1 for tokens that enter mean and covariance, 0 for the others; None when all do."""
    if not config.head["skip_special"]:
        return real
    if special is None:
        special = _special_of(config, inputs)
    kept = special.eq(0)
    if real is not None and kept.shape[1] < real.shape[1]:
        kept = F.pad(kept, (0, real.shape[1] - kept.shape[1]), value=True)
    return kept if real is None else kept & real.ne(0)


def _special_of(config: SecondOrderConfig, inputs: dict[str, Any]) -> Tensor:
    ids = inputs.get("input_ids")
    if ids is None:
        raise ValueError("skip_special needs input_ids, or special_tokens_mask beside inputs_embeds.")
    if not config.special_token_ids:
        raise ValueError(
            "skip_special needs to know the special tokens: pass special_token_ids=tokenizer.all_special_ids to "
            "second_order, or special_tokens_mask with each batch."
        )
    special = torch.zeros_like(ids, dtype=torch.bool)
    for token in config.special_token_ids:
        special = special | (ids == token)
    return special
