"""Read from the backbone what a head needs: its width, its class token, which of its parts are used."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.modeling_utils import PreTrainedModel

from ..internal.architectures import is_causal_decoder

# Leading tokens that are no patches, where the config does not say so itself.
PREFIX_TOKENS = {"deit": 2}
LENGTH = 8  # of the text that a body is tried on
# What vision models call the parameter that is their class token.
CLASS_TOKENS = ("cls_token", "class_embedding", "class_token")


def width_of(config: object) -> int:
    """Return the width of the last hidden state."""
    # OPT may leave its layers by a projection to a width of its own.
    for name in ("word_embed_proj_dim", "hidden_size", "d_model", "n_embd", "dim"):
        if isinstance(value := getattr(config, name, None), int):
            return value
    if sizes := getattr(config, "hidden_sizes", None):
        return int(sizes[-1])
    raise ValueError(f"cannot read the width of {type(config).__name__}; it names none of hidden_size, d_model, dim.")


def measure_width(body: Any, vision: bool) -> int | None:
    """Run the body once on a tiny input, and return the width of its tokens; refuse a body that the head cannot read.

    None if it does not run on such an input alone: some need more, and on the meta device nothing runs.
    """
    if not vision and body.main_input_name not in ("input_ids", "pixel_values"):
        raise ValueError(
            f"{type(body).__name__} reads {body.main_input_name}, and the head is one for texts (input_ids) or images "
            "(pixel_values). Give a model that reads those."
        )
    if vision:
        inputs = {"pixel_values": torch.zeros(1, *image_shape(body.config), device=body.device, dtype=body.dtype)}
    else:
        ones = torch.ones(1, LENGTH, device=body.device, dtype=torch.long)
        inputs = {"input_ids": ones, "attention_mask": ones}
    modes = [(module, module.training) for module in body.modules()]
    attention = getattr(body, "attention_type", None)  # BigBird gives its sparse one up for good at a short input
    body.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            output = body(**inputs, return_dict=True)
    except Exception:  # of whatever kind: this is a look ahead, and the first step will say more
        return None
    finally:
        for module, mode in modes:
            module.training = mode
        if attention is not None and body.attention_type != attention:
            body.set_attention_type(attention)
    tokens, name = getattr(output, "last_hidden_state", None), type(body).__name__
    if not isinstance(tokens, Tensor) or tokens.dim() not in (3, 4):
        raise ValueError(f"{name} gives no features of each token or patch (last_hidden_state), which the head reads.")
    if tokens.dim() == 4:  # feature maps (B, C, H, W)
        return tokens.shape[1]
    if not vision and tokens.shape[1] != LENGTH:
        raise ValueError(
            f"{name} makes {tokens.shape[1]} features of {LENGTH} tokens, so the head cannot tell words from padding. "
            "Give a model that keeps its tokens (of Funnel: FunnelModel)."
        )
    return tokens.shape[2]


def image_shape(config: object) -> tuple[int, int, int]:
    """Return the channels, height and width of the images that a config names."""
    size: Any = getattr(config, "image_size", None) or 64
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return int(getattr(config, "num_channels", 3)), int(height), int(width)


def class_token_of(model: Any) -> str:
    """Return `last` for decoders (their last token sees all others), `pooled` for vision models without class token."""
    config = model.config
    if is_vision(model):
        has_class_token = any(name.endswith(CLASS_TOKENS) for name, _ in model.named_parameters())
        return "first" if has_class_token else "pooled"
    if config.model_type == "xlnet":
        return "last"  # the class token closes the sequence
    text = config.get_text_config()
    decoder = getattr(config, "is_decoder", False) or is_causal_decoder(config) or is_causal_decoder(text)
    return "last" if decoder else "first"


def prefix_tokens_of(config: Any) -> int:
    """Count the leading tokens of a vision model that are no patches."""
    return PREFIX_TOKENS.get(config.model_type, 1) + int(getattr(config, "num_register_tokens", 0) or 0)


def is_vision(model: Any) -> bool:
    """Tell whether the backbone reads pixels, and no text."""
    return model.main_input_name == "pixel_values"


def text_part_of(body: Any) -> Any:
    """Return the part of a model of text and images that reads text."""
    if body.config.get_text_config() is body.config:
        return body
    embedding = body.get_input_embeddings()
    return [m for m in body.modules() if isinstance(m, PreTrainedModel) and embedding in set(m.modules())][-1]


def can_be_made_from(config: object) -> bool:
    """Tell whether `AutoModel` makes a model from a config alone, which it does not from that of T5Gemma's encoder."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    return type(config) in MODEL_MAPPING


def body_of(model: Any, class_token: str) -> Any:
    """Return the part of a model that the head reads, without task head, decoder and unused pooler."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    classes = cast(Any, MODEL_MAPPING).get(type(model.config), ())
    # DINOv3's own model calls its encoder what others call the model below their head.
    body = model if classes and isinstance(model, classes) else model.base_model
    # The config of an encoder cut out of such a model no longer says so, its modules still do.
    if body.config.is_encoder_decoder or all(
        isinstance(getattr(body, name, None), PreTrainedModel) for name in ("encoder", "decoder")
    ):
        body = body.get_encoder()
    if not is_vision(body):
        body = text_part_of(body)
    pooler = getattr(body, "pooler", None)
    if class_token != "pooled" and isinstance(pooler, nn.Module) and next(pooler.parameters(), None) is not None:
        # Parameters that get no gradient stop distributed training; Identity, since some models call it unasked.
        body.pooler = nn.Identity()
    return body
