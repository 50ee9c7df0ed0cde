"""Tiny models of the families ASA works on."""

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageClassification, AutoModelForSequenceClassification

from ..tiny import NO_DROPOUT, SMALL

COMMON = {**SMALL, **NO_DROPOUT, "max_position_embeddings": 64, "pad_token_id": 0}
GLU: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8, "attention_dropout": 0.0}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"max_position_embeddings": 66},
    "xlm-roberta": {"max_position_embeddings": 66},
    "electra": {"embedding_size": 32, "summary_last_dropout": 0.0},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0,
                   "seq_classif_dropout": 0.0},
    "modernbert": {"local_attention": 4, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
                   "layer_types": ["full_attention", "sliding_attention"]},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
             "attn_pdrop": 0.0},
    "llama": GLU,
    "qwen3": GLU,
    "vit": {"image_size": 8, "patch_size": 4},
    "mobilebert": {"intra_bottleneck_size": 16, "embedding_size": 16},
    "deberta": RELATIVE | {"max_relative_positions": 16},
    "deberta-v2": RELATIVE | {"position_buckets": 8, "max_relative_positions": 16},
    "deberta-v3": RELATIVE | {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
}  # fmt: skip
WITHOUT_SDPA = ("deberta", "deberta-v2", "deberta-v3")


def config(family: str, **changes: Any) -> Any:
    kind = "deberta-v2" if family == "deberta-v3" else family
    own = FAMILIES.get(family, {})
    known = set(vars(AutoConfig.for_model(kind))) | {
        "num_labels",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
    }
    common = {key: value for key, value in COMMON.items() if key in known}
    return AutoConfig.for_model(kind, **{**common, **own, **changes})


def build(family: str, dtype: torch.dtype = torch.float32, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    auto = AutoModelForImageClassification if family == "vit" else AutoModelForSequenceClassification
    return auto.from_config(config(family, **changes)).to(dtype).train()


def batch(family: str, rows: int = 3, length: int = 8) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(rows) % 3
    if family == "vit":
        return {"pixel_values": torch.randn(rows, 3, 8, 8, generator=generator), "labels": labels}
    ids = torch.randint(5, 99, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, rows):
        mask[row, length - row :] = 0
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def padded(inputs: dict[str, torch.Tensor], columns: int) -> dict[str, torch.Tensor]:
    """The same texts with more padding on the right."""
    wider = {key: nn.functional.pad(inputs[key], (0, columns)) for key in ("input_ids", "attention_mask")}
    return {**inputs, **wider}
