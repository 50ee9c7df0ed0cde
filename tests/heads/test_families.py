"""One table: the head on every family of backbones."""

import pytest
import torch
import transformers

from toughen.heads import second_order

from .conftest import FAMILIES, PIXELS, SIZE, TEXT, VISION, WORDS, batch_for, tiny

SMALL = {"num_labels": 3, "q": 6, "k": 4, "dropout": 0.0}
GEMMA = {**WORDS, **SIZE, "head_dim": 8, "num_key_value_heads": 2, "sliding_window": 8}
# Learned for other uses of the backbone only: masked pixels, permutation language modelling, segments.
UNUSED = ("mask_token", "mask_emb", "r_s_bias", "seg_embed")


def quiet(model, batch):
    with torch.no_grad():
        return model(**batch).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_all_parameters_learn_and_all_gradients_are_finite(family):
    model = second_order(tiny(family), **SMALL).train()
    batch = batch_for(family)
    rows = len(next(iter(batch.values())))
    model(**batch, labels=torch.arange(rows) % 3).loss.backward()
    for name, parameter in model.named_parameters():
        if not name.endswith(UNUSED):
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
    assert model.get_input_embeddings() is model.backbone.get_input_embeddings()


@pytest.mark.parametrize("family", TEXT)
def test_padding_changes_no_logit(family):
    model, batch = second_order(tiny(family), **SMALL), batch_for(family)
    longer = {
        "input_ids": torch.nn.functional.pad(batch["input_ids"], (0, 7), value=1),
        "attention_mask": torch.nn.functional.pad(batch["attention_mask"], (0, 7)),
    }
    torch.testing.assert_close(quiet(model, longer), quiet(model, batch), rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_padding_changes_no_logit_of_a_pooled_class_token(family):
    """BERT has a pooled output; DistilBERT has none, so that its class token is the mean of its tokens."""
    model, batch = second_order(tiny(family), class_token="pooled", **SMALL), batch_for(family)
    longer = {
        "input_ids": torch.nn.functional.pad(batch["input_ids"], (0, 7), value=1),
        "attention_mask": torch.nn.functional.pad(batch["attention_mask"], (0, 7)),
    }
    torch.testing.assert_close(quiet(model, longer), quiet(model, batch), rtol=0, atol=1e-6)


def test_the_width_of_a_backbone_that_ends_in_a_projection():
    """As OPT-350M does."""
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 1, "ffn_dim": 32, "num_attention_heads": 2}
    config = transformers.OPTConfig(**sizes, word_embed_proj_dim=16, max_position_embeddings=64)
    model, batch = second_order(transformers.OPTModel(config).eval(), **SMALL), batch_for("bert")
    assert model.config.hidden_size == 16
    assert quiet(model, batch).shape == (4, 3)


def test_a_sparse_attention_stays_sparse():
    """BigBird gives it up for good when it reads a short text, and the head is measured on one."""
    body = transformers.BigBirdModel(transformers.BigBirdConfig(**WORDS, **SIZE, block_size=4, num_random_blocks=1))
    model = second_order(body, **SMALL)
    kinds = {type(layer.attention.self).__name__ for layer in model.backbone.encoder.layer}
    assert (kinds, model.backbone.attention_type) == ({"BigBirdBlockSparseAttention"}, "block_sparse")


@pytest.mark.parametrize("family", ["llama", "electra"])
def test_left_padding_finds_the_class_token(family):
    model, batch = second_order(tiny(family), **SMALL), batch_for(family)
    ids, mask = batch["input_ids"][1:2, :5], batch["attention_mask"][1:2, :5]
    left = {
        "input_ids": torch.nn.functional.pad(ids, (4, 0), value=1),
        "attention_mask": torch.nn.functional.pad(mask, (4, 0)),
        "position_ids": torch.tensor([[0, 0, 0, 0, 0, 1, 2, 3, 4]]),
    }
    right = {"input_ids": ids, "attention_mask": mask}
    torch.testing.assert_close(quiet(model, left), quiet(model, right), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_batch_changes_no_logit(family):
    model, batch = second_order(tiny(family), **SMALL), batch_for(family)
    together = quiet(model, batch)
    for row in range(len(together)):
        alone = quiet(model, {name: value[row : row + 1] for name, value in batch.items()})
        torch.testing.assert_close(alone, together[row : row + 1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_reloads_bit_identically(family, tmp_path):
    model, batch = second_order(tiny(family), **SMALL), batch_for(family)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    auto = (
        transformers.AutoModelForImageClassification
        if family in VISION
        else transformers.AutoModelForSequenceClassification
    )
    loaded = auto.from_pretrained(tmp_path)
    assert type(loaded) is type(model)
    assert torch.equal(quiet(loaded, batch), quiet(model, batch))


@pytest.mark.parametrize("family", ["gpt2", "llama", "xlnet"])
def test_the_last_real_token_is_the_class_token(family):
    model, batch = second_order(tiny(family), pooling="class", num_labels=2), batch_for(family)
    with torch.no_grad():
        hidden = model.backbone(**batch).last_hidden_state
        last = batch["attention_mask"].sum(1) - 1
        expected = model.classifier.class_fc(hidden[torch.arange(4), last])
    torch.testing.assert_close(quiet(model, batch), expected)
    if family != "xlnet":
        without = quiet(model, {"input_ids": batch["input_ids"]})
        torch.testing.assert_close(without, expected)


def test_what_counts_as_a_word():
    assert second_order(tiny("deit"), **SMALL).config.prefix_tokens == 2
    assert second_order(tiny("dinov2_with_registers"), **SMALL).config.prefix_tokens == 4
    assert second_order(tiny("swin"), **SMALL).config.class_token == "pooled"
    model, images = second_order(tiny("deit"), **SMALL), batch_for("deit")
    with torch.no_grad():
        hidden = model.backbone(**images).last_hidden_state
        torch.testing.assert_close(
            model(**images).logits, model.classifier(hidden[:, 2:], class_vector=hidden[:, 0]), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("family", ["deit", "dinov2_with_registers"])
@pytest.mark.parametrize("settings", [{"preset": "sot-tiny", "heads": 1}, {"fusion": "aggre_all"}], ids=str)
def test_distillation_and_register_tokens_are_never_words(family, settings):
    """Not even where padding is one (`masked=False`); and they do not take the class token with them."""
    model, images = second_order(tiny(family), **{**SMALL, **settings}), batch_for(family)
    with torch.no_grad():
        hidden = model.backbone(**images).last_hidden_state
        words = torch.cat([hidden[:, :1], hidden[:, model.config.prefix_tokens :]], 1)
        torch.testing.assert_close(quiet(model, images), model.classifier(words), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "token"),
    [("siglip_vision_model", "pooled"), ("ijepa", "pooled"), ("dinov3_vit", "first"), ("clip_vision_model", "first")],
)
def test_no_patch_is_taken_for_a_class_token(kind, token, tmp_path):
    """SigLIP has none and pools, I-JEPA has not even a pooled output; DINOv3's own model names its encoder `model`."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    below = transformers.AutoModel.from_config(
        transformers.AutoConfig.for_model(kind, **sizes, image_size=8, patch_size=4)
    )
    model, images = second_order(below, **SMALL).eval(), {"pixel_values": torch.randn(2, 3, 8, 8)}
    assert model.config.class_token == token
    with torch.no_grad():
        output = model.backbone(**images)
        words, pooled = output.last_hidden_state, output.get("pooler_output")
        given = {} if token == "first" else {"class_vector": words.mean(1) if pooled is None else pooled}
        expected = model.classifier(words, **given)
    torch.testing.assert_close(quiet(model, images), expected)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(quiet(again, images), expected)


def test_the_encoder_of_an_encoder_decoder_is_taken():
    for family in ("t5", "bart"):
        model = second_order(tiny(family), **SMALL)
        assert not any("decoder" in name for name, _ in model.named_parameters())


EYE = {"mm_tokens_per_image": 4, "vision_config": {**SIZE, "image_size": 16, "patch_size": 8}}
OTHERS = {  # their last hidden states, inputs or configs are unlike BERT's and ViT's
    "beit": ("BeitModel", PIXELS | SIZE),
    "funnel": ("FunnelModel", {**WORDS, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 2,
                               "d_head": 8, "d_inner": 32}),
    "reformer": ("ReformerModel", {**WORDS, "hidden_size": 16, "attention_head_size": 8, "num_attention_heads": 2,
                                   "feed_forward_size": 16, "attn_layers": ["local", "local"], "is_decoder": False,
                                   "axial_pos_shape": [3, 3], "axial_pos_embds_dim": [8, 8],
                                   "local_attn_chunk_length": 3}),
    "focalnet": ("FocalNetModel", {"image_size": 16, "patch_size": 2, "embed_dim": 16, "hidden_sizes": [16, 32, 64],
                                   "depths": [1, 1]}),
    "mobilevit": ("MobileViTModel", {"image_size": 32, "hidden_sizes": [12, 16, 20], "num_attention_heads": 2,
                                     "neck_hidden_sizes": [8, 8, 16, 16, 32, 32, 32]}),
    "textnet": ("TextNetModel", {"image_size": 16, "stem_out_channels": 8, "hidden_sizes": [8, 8, 8, 8, 8], **{
        f"conv_layer_{name}": [[value]] * 4 for name, value in
        (("kernel_sizes", [3, 3]), ("strides", 1))}}),
    "t5gemma": ("T5GemmaForSequenceClassification", {"encoder": GEMMA, "decoder": GEMMA}),
    "t5gemma2": ("T5Gemma2ForSequenceClassification", {
        "encoder": {"text_config": GEMMA, **EYE}, "decoder": GEMMA, "image_token_index": 59,
    }),
    "gemma3": ("Gemma3ForSequenceClassification", {"text_config": GEMMA, "image_token_index": 59, **EYE}),
}  # fmt: skip


@pytest.mark.parametrize("family", OTHERS)
def test_backbones_of_other_shapes_train_and_reload(family, tmp_path):
    name, settings = OTHERS[family]
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    model = second_order(cls(cls.config_class(**settings)).eval(), **SMALL)
    vision = family in ("beit", "focalnet", "mobilevit", "textnet")
    size = getattr(model.config.backbone_config, "image_size", 16)
    batch = {"pixel_values": torch.randn(4, 3, size, size)} if vision else batch_for("bert")
    assert model.main_input_name == next(iter(batch))
    model.train()(**batch, labels=torch.arange(4) % 3).loss.backward()
    model.eval().save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert torch.equal(quiet(loaded, batch), quiet(model, batch))


def test_a_backbone_that_pools_its_tokens_is_refused_when_the_head_is_put_on():
    kind = transformers.FunnelForSequenceClassification
    with pytest.raises(ValueError, match=r"4 features of 8 tokens.*FunnelModel"):
        second_order(kind(kind.config_class(**OTHERS["funnel"][1])), num_labels=2)


def test_a_backbone_that_reads_neither_text_nor_images_is_refused_when_the_head_is_put_on():
    """Perceiver's last hidden states are latents, of which none is a word."""
    small = {"d_model": 8, "num_latents": 4, "d_latents": 8, "num_blocks": 1, "num_self_attends_per_block": 1}
    body = transformers.PerceiverModel(transformers.PerceiverConfig(**small, num_self_attention_heads=2))
    with pytest.raises(ValueError, match=r"PerceiverModel reads inputs, .*input_ids"):
        second_order(body, num_labels=2)


CHOICES = {  # what else their tokenizers give
    "Flaubert": ({"emb_dim": 16, "n_layers": 2, "n_heads": 2}, {"langs": 4}),
    "Longformer": ({**SIZE, "attention_window": 4}, {"global_attention_mask": 4}),
    "Luke": ({**SIZE, "entity_vocab_size": 20, "entity_emb_size": 8}, {"entity_ids": 3, "entity_attention_mask": 3}),
    "VisualBert": ({**SIZE, "visual_embedding_dim": 6}, {"visual_embeds": 3}),
}


@pytest.mark.parametrize("family", CHOICES)
def test_other_inputs_have_choices_as_well(family):
    settings, more = CHOICES[family]
    cls = getattr(transformers, f"{family}Model")
    model = second_order(cls(cls.config_class(**{**WORDS, **settings})), q=6, k=4, task="multiple-choice")
    batch = {name: value.view(2, 2, -1) for name, value in batch_for("bert").items()}
    given = {name: torch.zeros(2, 2, n if n == 3 else batch["input_ids"].shape[-1]).long() for name, n in more.items()}
    if family == "Luke":
        given |= {"entity_position_ids": torch.zeros(2, 2, 3, 4).long()}
    if family == "VisualBert":
        given = {"visual_embeds": torch.rand(2, 2, 3, 6), "visual_attention_mask": torch.ones(2, 2, 3)}
        given["visual_token_type_ids"] = torch.zeros(2, 2, 3).long()
    assert quiet(model, batch | given).shape == (2, 2)
    if family == "Flaubert":
        with pytest.raises(ValueError, match=r"lengths.*attention_mask"):
            model(**batch, lengths=torch.tensor([9, 5]))
