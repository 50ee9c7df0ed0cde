"""Tiny random backbones of every family the head is put on."""

import pytest
import torch
import transformers

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {"vocab_size": 60, "pad_token_id": 1}
PIXELS = {"image_size": 16, "patch_size": 4, "num_channels": 3}
BART = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
        (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}  # fmt: skip

FAMILIES = {
    "bert": ("BertModel", {**WORDS, **SIZE}),
    "roberta": ("RobertaForSequenceClassification", {**WORDS, **SIZE, "max_position_embeddings": 80}),
    "distilbert": ("DistilBertModel", {**WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "deberta-v2": ("DebertaV2Model", {**WORDS, **SIZE}),
    "electra": ("ElectraModel", {**WORDS, **SIZE, "embedding_size": 16}),
    "albert": ("AlbertModel", {**WORDS, **SIZE, "embedding_size": 16}),
    "modernbert": ("ModernBertModel", {**WORDS, **SIZE, **dict.fromkeys(("cls_token_id", "bos_token_id"), 2),
                                       **dict.fromkeys(("sep_token_id", "eos_token_id"), 3)}),
    "xlnet": ("XLNetModel", {**WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "gpt2": ("GPT2Model", {**WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 2, "eos_token_id": 3}),
    "llama": ("LlamaForCausalLM", {**WORDS, **SIZE}),
    "t5": ("T5Model", {**WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    "bart": ("BartModel", {**WORDS, "d_model": 32, **BART}),
    "vit": ("ViTModel", {**PIXELS, **SIZE}),
    "deit": ("DeiTModel", {**PIXELS, **SIZE}),
    "swin": ("SwinModel", {**PIXELS, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
                           "window_size": 4}),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", {**PIXELS, **SIZE, "num_register_tokens": 3}),
}  # fmt: skip
VISION = ("vit", "deit", "swin", "dinov2_with_registers")
TEXT = tuple(name for name in FAMILIES if name not in VISION)


def tiny(family):
    """A random model, its dropout off."""
    name, settings = FAMILIES[family]
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    model = cls(cls.config_class(**settings)).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def batch_for(family):
    """A batch with long, short and one-word rows, or with images."""
    generator = torch.Generator().manual_seed(3)
    if family in VISION:
        return {"pixel_values": torch.randn(3, 3, 16, 16, generator=generator)}
    ids = torch.randint(5, 60, (4, 9), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((9, 5, 2, 1)):
        mask[row, length:] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 1), "attention_mask": mask}


@pytest.fixture
def bert():
    return tiny("bert")
