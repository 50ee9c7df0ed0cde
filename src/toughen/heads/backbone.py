"""Read from the backbone what a head needs: its width, its class token, which of its parts are used."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from ..internal.architectures import is_causal_decoder

# Leading tokens that are no patches, where the config does not say so itself.
PREFIX_TOKENS = {"deit": 2}
# What vision models call the parameter that is their class token.
CLASS_TOKENS = ("cls_token", "class_embedding", "class_token")


def width_of(config: Any) -> int:
    """Return the width of the last hidden state."""
    # OPT may leave its layers by a projection to a width of its own.
    for name in ("word_embed_proj_dim", "hidden_size", "d_model", "n_embd", "dim"):
        if isinstance(value := getattr(config, name, None), int):
            return value
    if sizes := getattr(config, "hidden_sizes", None):
        return int(sizes[-1])
    raise ValueError(f"cannot read the width of {type(config).__name__}; it names none of hidden_size, d_model, dim.")


def class_token_of(model: Any) -> str:
    """Return `last` for decoders (their last token sees all others), `pooled` for vision models without class token."""
    config = model.config
    if is_vision(config):
        has_class_token = any(name.endswith(CLASS_TOKENS) for name, _ in model.named_parameters())
        return "first" if has_class_token else "pooled"
    if config.model_type == "xlnet":
        return "last"  # the class token closes the sequence
    return "last" if getattr(config, "is_decoder", False) or is_causal_decoder(config) else "first"


def prefix_tokens_of(config: Any) -> int:
    """Count the leading tokens of a vision model that are no patches."""
    return PREFIX_TOKENS.get(config.model_type, 1) + int(getattr(config, "num_register_tokens", 0) or 0)


def is_vision(config: Any) -> bool:
    """Tell whether the backbone reads pixels."""
    return hasattr(config, "num_channels") and not hasattr(config, "vocab_size")


def body_of(model: Any, class_token: str) -> Any:
    """Return the part of a model that the head reads, without task head, decoder and unused pooler."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    classes = cast(Any, MODEL_MAPPING).get(type(model.config), ())
    # DINOv3's own model calls its encoder what others call the model below their head.
    body = model if classes and isinstance(model, classes) else model.base_model
    # The config of an encoder cut out of such a model no longer says so, its modules still do.
    if body.config.is_encoder_decoder or all(
        isinstance(getattr(body, name, None), nn.Module) for name in ("encoder", "decoder")
    ):
        body = body.get_encoder()
    pooler = getattr(body, "pooler", None)
    if class_token != "pooled" and isinstance(pooler, nn.Module) and next(pooler.parameters(), None) is not None:
        # Parameters that get no gradient stop distributed training; Identity, since some models call it unasked.
        body.pooler = nn.Identity()
    return body
