import pytest
import torch

import toughen
from toughen.errors import MethodError
from toughen.heads import second_order
from toughen.reports.attention import attention_maps, draw_attention

from .families import batch, build


class Words:
    """A tokenizer in few lines: an id by the length of a word."""

    def __call__(self, *texts, return_tensors):
        self.words = ["[CLS]", *" [SEP] ".join(texts).split(), "[SEP]"]
        ids = torch.tensor([[5 + len(word) for word in self.words]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def convert_ids_to_tokens(self, _ids):
        return self.words


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "llama", "modernbert", "gpt2"])
def test_maps_are_attention(family):
    model, inputs = build(family), batch(family)
    attached = toughen.asa(visible=0.6, per_head=True).attach(model, seed=0)
    before = model.config._attn_implementation
    maps = attention_maps(attached, inputs, sample=True)
    real = inputs["attention_mask"].bool()[:, None, :]
    for clean, perturbed, visible in maps.values():
        assert clean.shape == perturbed.shape == (3, 4, 8, 8)
        assert torch.allclose(clean.sum(-1)[real.expand(3, 4, 8)], torch.tensor(1.0), atol=1e-5)
        hidden = ~visible & real.unsqueeze(-1)
        assert (hidden & (clean > 1e-6)).any()
        assert perturbed[hidden].abs().max() < 1e-6
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_maps_of_a_backbone_under_a_second_order_head(implementation):
    """The method switches the backbone's attention; the config above it goes on saying sdpa."""
    below = build("bert").base_model
    below.set_attn_implementation(implementation)
    model, inputs = second_order(below, 3, q=6, k=4), batch("bert")
    attached = toughen.asa(visible=0.6).attach(model, seed=0)
    before = model.backbone.config._attn_implementation
    maps = attention_maps(attached, inputs, sample=True)
    assert sorted(maps) == [0, 1]
    assert maps[0].clean.shape == maps[0].adversarial.shape == (3, 4, 8, 8)
    assert not torch.equal(maps[0].clean, maps[0].adversarial)
    assert model.backbone.config._attn_implementation == before


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_picture(tmp_path, ending, start):
    pytest.importorskip("matplotlib")
    model = build("bert")
    attached = toughen.asa(visible=0.6).attach(model, seed=0)
    path = draw_attention(attached, Words(), ("a $$ cc", "dd $e$"), tmp_path / f"a.{ending}", head=1, sample=True)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [f"a.{ending}"]
    with pytest.raises(MethodError, match="no adversary"):
        draw_attention(attached, Words(), "a b", tmp_path / "b.png", layer=9)
    with pytest.raises(MethodError, match="has heads 0 to 3"):
        draw_attention(attached, Words(), "a b", tmp_path / "b.png", head=4)
    assert draw_attention(attached, Words(), "a b", tmp_path / "new" / "b.png").is_file()


def test_a_text_of_a_model_for_choices(tmp_path):
    pytest.importorskip("matplotlib")
    attached = toughen.asa().attach(second_order(build("bert"), task="multiple-choice", q=4, k=4), seed=0)
    assert draw_attention(attached, Words(), ("a b", "cc"), tmp_path / "a.png").is_file()
