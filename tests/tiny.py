"""Tiny random models and batches for the tests."""

from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedTokenizerFast

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
    "num_labels": 3,
    "initializer_range": 0.2,  # predictions that move: at 0.02 every divergence is rounding
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokenizer() -> PreTrainedTokenizerFast:
    """Words w5 to w99, and pad 0, class 1, separator 2, unknown 3, mask 4."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *[f"w{i}" for i in range(5, 100)]])}
    inner = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    names = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=inner, **dict(zip(names, special, strict=True)))


TOKENIZER = tokenizer()


def bert(dtype: torch.dtype = torch.float64, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT, **changes})
    return AutoModelForSequenceClassification.from_config(config).to(dtype).train()


def text_batch(rows: int = 3, length: int = 10, seed: int = 1) -> dict[str, Tensor]:
    """Texts of different lengths with class and separator tokens, right-padded, and three classes."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 99, (rows, length), generator=generator)
    lengths = [length - (2 * i) % (length - 4) for i in range(rows)]
    mask = torch.zeros_like(ids)
    for row, real in enumerate(lengths):
        mask[row, :real] = 1
        ids[row, 0], ids[row, real - 1], ids[row, real:] = 1, 2, 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.arange(rows) % 3}


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        difference = (ours[name] - value).abs().max() / value.abs().max().clamp(min=1)
        assert difference <= tolerance, f"{name}: {difference:.2e}"
