"""Tiny random models of every family, and batches for every head: 2 layers, 32 wide, 64 words."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

VOCABULARY, WIDTH, LABELS = 64, 32, 3
PAD, START, END, FIRST_WORD = 0, 1, 2, 5  # the ids of padding and of special tokens in all these models

_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": START,
    "eos_token_id": END,
}
_GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
_BART = {
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": END,
    "forced_eos_token_id": None,
}


@dataclass(frozen=True)
class Family:
    name: str
    config: Callable[..., Any]
    settings: dict[str, Any]
    embedding: str  # where the input embedding is, as a dotted path under the sequence classifier
    norm: str | None = None  # where the embedding block's norm is, if there is one
    dropout: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    left: bool = True  # whether the family takes left padding
    text: bool = True
    layer: str | None = None  # the first layer; None: all layers are one module

    def build(self, auto: Any = None, dropout: float = 0.1, seed: int = 0, **more: Any) -> nn.Module:
        """A model of the family; the same seed gives the same weights."""
        settings = {**self.settings, **dict.fromkeys(self.dropout, dropout), **more}
        if auto is None:
            auto = hf.AutoModelForSequenceClassification if self.text else hf.AutoModelForImageClassification
            settings.setdefault("num_labels", LABELS)
        torch.manual_seed(seed)
        model = auto.from_config(self.config(**settings))
        with torch.no_grad():  # the usual start is so small that every class is as likely as the next
            for name, weight in model.named_parameters():
                if weight.dim() > 1:
                    weight.normal_(std=0.2)
                elif "bias" in name:
                    weight.normal_(std=0.1)
        return model.train()


_BERT = "embeddings.word_embeddings", "embeddings.LayerNorm"
_ALL = [
    Family("bert", hf.BertConfig, _SMALL, "bert." + _BERT[0], "bert." + _BERT[1], layer="bert.encoder.layer.0"),
    Family(
        "roberta", hf.RobertaConfig, _SMALL, "roberta." + _BERT[0], "roberta." + _BERT[1],
        layer="roberta.encoder.layer.0",
    ),
    Family(
        "xlm-roberta", hf.XLMRobertaConfig, _SMALL, "roberta." + _BERT[0], "roberta." + _BERT[1],
        layer="roberta.encoder.layer.0",
    ),
    Family(
        "deberta", hf.DebertaConfig, _SMALL | _RELATIVE, "deberta." + _BERT[0], "deberta." + _BERT[1],
        layer="deberta.encoder.layer.0",
    ),
    Family(
        "deberta-v2", hf.DebertaV2Config, _SMALL | _RELATIVE, "deberta." + _BERT[0], "deberta." + _BERT[1],
        layer="deberta.encoder.layer.0",
    ),
    Family(
        "electra", hf.ElectraConfig, _SMALL | {"embedding_size": 16}, "electra." + _BERT[0], "electra." + _BERT[1],
        layer="electra.encoder.layer.0",
    ),
    Family("albert", hf.AlbertConfig, _SMALL | {"embedding_size": 16}, "albert." + _BERT[0], "albert." + _BERT[1]),
    Family(
        "distilbert", hf.DistilBertConfig,
        {"vocab_size": VOCABULARY, "dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "pad_token_id": PAD,
         "max_position_embeddings": 64, "bos_token_id": START, "eos_token_id": END},
        "distilbert." + _BERT[0], "distilbert." + _BERT[1], dropout=("dropout", "attention_dropout"),
        layer="distilbert.transformer.layer.0",
    ),
    Family("mpnet", hf.MPNetConfig, _SMALL, "mpnet." + _BERT[0], "mpnet." + _BERT[1], layer="mpnet.encoder.layer.0"),
    Family(
        "modernbert", hf.ModernBertConfig,
        _SMALL | {"cls_token_id": START, "sep_token_id": END, "local_attention": 8, "reference_compile": False},
        "model.embeddings.tok_embeddings", "model.embeddings.norm",
        dropout=("embedding_dropout", "mlp_dropout", "attention_dropout", "classifier_dropout"), layer="model.layers.0",
    ),
    Family(
        "gpt2", hf.GPT2Config,
        {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 64,
         "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END},
        "transformer.wte", dropout=("resid_pdrop", "embd_pdrop", "attn_pdrop"), layer="transformer.h.0",
    ),
    Family(
        "llama", hf.LlamaConfig, _SMALL | _GROUPED, "model.embed_tokens", dropout=("attention_dropout",),
        layer="model.layers.0",
    ),
    Family(
        "qwen3", hf.Qwen3Config, _SMALL | _GROUPED, "model.embed_tokens", dropout=("attention_dropout",),
        layer="model.layers.0",
    ),
    Family(
        "t5", hf.T5Config,
        {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
         "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": PAD},
        "transformer.encoder.embed_tokens", dropout=("dropout_rate", "classifier_dropout"),
        layer="transformer.encoder.block.0",
    ),
    Family(
        "bart", hf.BartConfig, {k: v for k, v in _SMALL.items() if "hidden" not in k} | _BART,
        "model.encoder.embed_tokens", "model.encoder.layernorm_embedding",
        dropout=("dropout", "attention_dropout", "activation_dropout", "classifier_dropout"),
        layer="model.encoder.layers.0",
    ),
    Family(
        "xlnet", hf.XLNetConfig,
        {"vocab_size": VOCABULARY, "d_model": WIDTH, "n_layer": 2, "n_head": 4, "d_inner": 64, "pad_token_id": PAD,
         "bos_token_id": START, "eos_token_id": END},
        "transformer.word_embedding", dropout=("dropout", "summary_last_dropout"), layer="transformer.layer.0",
    ),
    Family(
        "vit", hf.ViTConfig,
        {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
         "image_size": 16, "patch_size": 4},
        "vit.embeddings.patch_embeddings", left=False, text=False, layer="vit.*.0",
    ),
]  # fmt: skip
FAMILIES = {family.name: family for family in _ALL}


@cache
def classifier(name: str, dropout: float = 0.1) -> nn.Module:
    """The family's sentence or image classifier, made once: tests leave it as they found it."""
    return FAMILIES[name].build(dropout=dropout)


def text(lengths: tuple[int, ...] = (7, 4, 6), side: str = "right", extra: int = 0, seed: int = 1) -> dict[str, Tensor]:
    """Texts of different lengths, each in a start and an end token; `extra` columns of padding on top."""
    random = torch.Generator().manual_seed(seed)
    width = max(lengths) + extra
    ids = torch.full((len(lengths), width), PAD)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        words = torch.randint(FIRST_WORD, VOCABULARY, (length - 2,), generator=random)
        first = 0 if side == "right" else width - length
        ids[row, first : first + length] = torch.cat([torch.tensor([START]), words, torch.tensor([END])])
        mask[row, first : first + length] = 1
    return {"input_ids": ids, "attention_mask": mask}


def words(batch: dict[str, Tensor]) -> Tensor:
    """Which positions hold a word: no padding, no special token."""
    return batch["input_ids"] >= FIRST_WORD


def batch_for(
    family: Family, side: str = "right", extra: int = 0, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """A labelled batch for the family's classifier."""
    labels = {"labels": torch.tensor([0, 2, 1])}
    if not family.text:
        return {
            "pixel_values": torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
        } | labels
    return text(side=side, extra=extra) | labels
