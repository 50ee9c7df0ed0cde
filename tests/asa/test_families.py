"""Every family: a clean pass is the model's own, a perturbed one reaches every adversary, padding is nothing."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageClassification

import toughen
from toughen.errors import SiteError

from .families import FAMILIES, WITHOUT_SDPA, batch, build, padded

KINDS = [(f, i) for f in FAMILIES for i in ("sdpa", "eager") if not (f in WITHOUT_SDPA and i == "sdpa")]


@pytest.mark.parametrize(("family", "implementation"), KINDS)
def test_family(family, implementation):
    model, inputs = build(family), batch(family)
    model.set_attn_implementation(implementation)
    model.eval()
    with torch.no_grad():
        before = model(**inputs).logits
    attached = toughen.asa(visible=0.6).attach(model, seed=3)
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, before)
    model.train()
    attached.backward(model, inputs)
    layers = set(range(model.config.num_hidden_layers))
    assert {int(name.split(".")[0]) for name, _ in attached.adversary.named_parameters()} == layers
    for name, parameter in attached.adversary.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    assert attached.report()["divergence"] > 0
    attached.detach()
    model.eval()
    assert model.config._attn_implementation == implementation
    assert not any("toughen" in name for name, _ in model.named_modules())
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, before)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize(("family", "implementation"), [k for k in KINDS if k[0] != "vit"])
def test_padding_changes_nothing(family, implementation, per_head):
    seen = []
    # ModernBERT's eager function turns float64's lowest number into -inf: NaN where a window holds padding alone.
    dtype = torch.float32 if family == "modernbert" else torch.float64
    for extra in (0, 3):
        model, inputs = build(family, dtype), batch(family)
        model.set_attn_implementation(implementation)
        inputs = padded(inputs, extra)
        attached = toughen.asa(visible=0.6, per_head=per_head).attach(model, seed=3)
        total = attached.backward(model, inputs)
        grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        seen.append((total, attached.report()["budget"], grads))
    (one, kept_one, grads_one), (two, kept_two, grads_two) = seen
    assert torch.allclose(one, two, atol=1e-6)
    assert torch.allclose(kept_one, kept_two, atol=1e-6)
    assert kept_one < 0.9
    for name, grad in grads_one.items():
        assert torch.allclose(grad, grads_two[name], atol=1e-5, rtol=1e-4), name


@pytest.mark.parametrize("family", ["bert", "llama", "deberta-v2"])
def test_masks_keep_to_what_the_model_sees(family):
    model, inputs = build(family), batch(family)
    attached = toughen.asa(visible=0.05, per_head=True).attach(model, seed=3)
    masks = attached.attention_masks(inputs, sample=True)
    real = inputs["attention_mask"].bool()
    for mask in masks.values():
        assert mask.shape == (3, 4, 8, 8)
        assert not (mask & ~real[:, None, None, :]).any(), "padding is attended"
        rows = mask.any(-1) | ~real[:, None, :]
        assert rows.all(), "a query has lost all its keys"
        if family == "llama":
            assert not mask.triu(1).any()


@pytest.mark.parametrize(
    ("family", "changes", "words"),
    [
        ("albert", {"embedding_size": 16}, "share"),
        ("mpnet", {}, "AttentionInterface"),
        ("bart", {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                  "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}, "encoder-decoder"),
        ("t5", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}, "encoder-decoder"),
        ("deberta-v2", {"relative_attention": False}, "relative_attention"),
        ("doge", {"num_key_value_heads": 4}, "by way of the mask"),
    ],
)  # fmt: skip
def test_refused_with_a_way_out(family, changes, words):
    model = build(family, **changes)
    with pytest.raises(SiteError, match=words) as caught:
        toughen.asa().attach(model)
    assert "toughen.smart()" in str(caught.value)
    assert not hasattr(model, "toughen_adversary")
    toughen.smart().attach(model).detach()  # the way out is one


@pytest.mark.parametrize("bias", ["use_relative_position_bias", "use_shared_relative_position_bias"])
def test_a_position_bias_that_comes_as_the_mask_is_not_replaced(bias):
    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = AutoModelForImageClassification.from_config(AutoConfig.for_model("beit", **sizes, **{bias: True}))
    with pytest.raises(SiteError, match="learnt bias"):
        toughen.asa(per_head=True).attach(model)
    plain = AutoModelForImageClassification.from_config(AutoConfig.for_model("beit", **sizes))
    toughen.asa(per_head=True).attach(plain).detach()


def test_kernels_without_a_mask_are_refused():
    model = build("bert")
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(SiteError, match="set_attn_implementation"):
        toughen.asa().attach(model)


def test_a_layer_that_attends_twice():
    attached = toughen.asa().attach(build("diffllama", num_key_value_heads=4))
    with pytest.raises(SiteError, match="more than once in a pass"):
        attached.attention_masks(batch("llama"))


def test_no_such_layer():
    with pytest.raises(SiteError, match="no layer 7"):
        toughen.asa(layers=[7]).attach(build("bert"))


def test_layers_can_be_chosen():
    model = build("bert")
    attached = toughen.asa(layers=[-1]).attach(model)
    assert list(attached.attention_masks(batch("bert"))) == [1]
    assert list(dict(attached.adversary.named_children())) == ["1"]
    with torch.no_grad():
        before = model.bert.encoder.layer[0].attention.self.query.weight.clone()
    attached.backward(model, batch("bert"))
    assert torch.equal(before, model.bert.encoder.layer[0].attention.self.query.weight)
