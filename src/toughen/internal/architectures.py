"""What the class and config of a model tell: its head, its backbone, which way it reads."""

from typing import Any, Literal, TypeAlias, cast

from torch import nn

HeadType: TypeAlias = Literal[
    "sequence",
    "tokens",
    "choices",
    "span",
    "segmentation",
    "ctc",
    "token_binary",
    "causal_lm",
    "masked_lm",
    "seq2seq_lm",
    "regression",
]

OLD_HEAD_TYPES: dict[str, HeadType] = {
    "auto": "sequence",
    "pixels": "segmentation",
    "frames": "ctc",
    "flags": "token_binary",
}

IGNORED = -100  # the label of a position that has none, everywhere in transformers


# Decoder-only classes of seq2seq families do not shift labels: logits at position t predict labels[t], as in masked
# language models. MBart and PLBart end like Bart, BigBirdPegasus like Pegasus.
_SEQ2SEQ_DECODERS = (
    *("Bart", "Blenderbot", "BlenderbotSmall", "Marian", "Mvp", "Pegasus", "ProphetNet", "TrOCR", "Whisper"),
    "CpmAnt",  # not a half, but so all the same
)


_BY_CLASS_NAME: tuple[tuple[str, HeadType], ...] = (
    ("ViltForQuestionAnswering", "sequence"),  # answers are classes of the whole pair
    ("VisualBertForQuestionAnswering", "choices"),  # one distribution over the answers
    ("TapasForQuestionAnswering", "token_binary"),  # of each token whether its cell belongs to the answer
    ("ForQuestionAnswering", "span"),
    *((f"{family}ForPreTraining", "token_binary") for family in ("Electra", "Funnel")),
    ("ForTokenClassification", "tokens"),
    ("ForMultipleChoice", "choices"),
    ("ForSemanticSegmentation", "segmentation"),
    ("ForCTC", "ctc"),
    ("PI0ForConditionalGeneration", "regression"),  # of a robot's next movements
    ("ForMaskedLM", "masked_lm"),
    ("ForConditionalGeneration", "seq2seq_lm"),
    *((f"{family}ForCausalLM", "masked_lm") for family in _SEQ2SEQ_DECODERS),
    ("ForCausalLM", "causal_lm"),
    ("WithLMHeadModel", "masked_lm"),  # XLM's and Flaubert's labels stand where they are predicted
    ("XLNetLMHeadModel", "masked_lm"),
    ("LMHeadModel", "causal_lm"),
    ("ModelWithLMHead", "causal_lm"),
)


def unwrap_peft(model: nn.Module) -> nn.Module:
    """Return the transformers model under PEFT's wrapper, whose `base_model` is the model and not its backbone."""
    return cast(Any, model).get_base_model() if hasattr(model, "get_base_model") else model


def is_compiled_whole(model: nn.Module) -> bool:
    """Tell whether torch.compile has a model as a whole, its hooks included."""
    return hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None


def is_compiled(model: nn.Module) -> bool:
    """Tell whether torch.compile has a model, or modules in it."""
    return is_compiled_whole(model) or any(
        getattr(module, "_compiled_call_impl", None) is not None for module in model.modules()
    )


def find_classifier(model: nn.Module) -> nn.Linear | None:
    """Return the linear layer that gives the logits: the last one that is not inside the backbone, or inside those of
    the models that a wrapper holds.
    """
    model = unwrap_peft(model)
    parts = [model] if hasattr(model, "base_model") else model.modules()
    backbones = [getattr(part, "base_model", None) for part in parts]
    inside = {m for one in backbones if isinstance(one, nn.Module) and one is not model for m in one.modules()}
    found = [m for m in model.modules() if isinstance(m, nn.Linear) and m not in inside]
    return found[-1] if found else None


def is_causal_decoder(config: object) -> bool:
    """Tell whether a model is a decoder, of whose tokens only the last one has seen the whole text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    name = getattr(config, "model_type", "")
    return name in CAUSAL and name not in MASKED and not getattr(config, "is_encoder_decoder", False)


def infer_head_type(model: nn.Module) -> HeadType:
    """Infer what the model's head does from its class name; "sequence" for sentence and image heads."""
    own = unwrap_peft(model)
    name = type(own).__name__
    found: list[HeadType] = [task for ending, task in _BY_CLASS_NAME if ending in name]
    if found[:1] == ["seq2seq_lm"] and getattr(getattr(own, "config", None), "is_encoder_decoder", None) is False:
        return "causal_lm"  # models of text and images (Gemma 3, LLaVA) are decoders under that name
    return found[0] if found else "sequence"


# These count positions from the index of padding on.
_COUNT_FROM_PADDING = {
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "data2vec-text", "mpnet"),
    *("longformer", "xmod", "luke", "ibert", "lilt", "esm"),
}


def longest_input(tokenizer: Any, config: Any) -> int | None:
    """Return how many tokens the model reads at most, with special ones; None if nothing bounds it.

    Args:
        tokenizer: The tokenizer.
        config: The model's config.

    Returns:
        A number of tokens, or None.

    Examples:
        >>> toughen.tasks.longest_input(tokenizer, model.config)
        512
    """
    own = int(tokenizer.model_max_length)
    limits = [own] if own < 1_000_000 else []
    positions = getattr(config, "max_position_embeddings", None)
    # DeBERTa's positions are relative; its config names a number that bounds nothing.
    if isinstance(positions, int) and positions > 0 and getattr(config, "position_biased_input", True):
        from_padding = config.model_type in _COUNT_FROM_PADDING
        limits.append(positions - (config.pad_token_id or 0) - 1 if from_padding else positions)
    return min(limits, default=None)
