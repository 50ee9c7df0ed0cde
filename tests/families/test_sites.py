"""Where models of other makes are perturbed: their inputs and no more, and parts that no base class names."""

import math
from collections import namedtuple
from copy import deepcopy
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import toughen
from toughen.compare.model_outputs import parse_output
from toughen.errors import SiteError, StepError
from toughen.internal.architectures import find_classifier, infer_head_type
from toughen.sites import Hidden, WordEmbedding
from toughen.sites.locate import input_embedding, layer_path

from .test_families import attached_to, step, traces
from .zoo import FAMILIES, WIDTH, text

pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TEXT = text((8, 5))
LABELLED = TEXT | {"labels": torch.tensor([0, 1])}
IMAGE = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def made(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    return kind(config).train()


def gpt2() -> nn.Module:
    return made(hf.GPT2ForSequenceClassification, hf.GPT2Config(**SMALL))


def ctrl() -> nn.Module:
    sizes = {"vocab_size": 64, "n_embd": 16, "dff": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "pad_token_id": 0}
    return made(hf.CTRLForSequenceClassification, hf.CTRLConfig(**sizes))


def xlm() -> nn.Module:
    sizes = {"vocab_size": 64, "emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 32}
    return made(hf.XLMForSequenceClassification, hf.XLMConfig(**sizes))


@pytest.mark.parametrize(("build", "after"), [(gpt2, "transformer.drop"), (xlm, "transformer.layer_norm_emb")])
def test_token_types_of_the_word_embedding_are_not_perturbed(build: Any, after: str) -> None:
    model, seen = build(), list[Tensor]()
    batch = LABELLED | {"token_type_ids": torch.zeros_like(TEXT["input_ids"])}
    model.get_submodule(after).register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
    with attached_to(model, toughen.smart(dropout="off")) as attached:
        step(attached, model, batch)
        moved = (seen[-1] - seen[0]).flatten(1).norm(dim=1).mean()
        torch.testing.assert_close(moved, attached.report()["delta_norm"], rtol=1e-3, atol=0)


def test_token_types_may_come_first() -> None:
    model, batch = ctrl(), LABELLED | {"token_type_ids": torch.zeros_like(TEXT["input_ids"])}
    with attached_to(model, toughen.smart()) as attached:
        step(attached, model, batch)
        view = attached.last_batches[0].perturbation.views[0]
        assert torch.equal(view.value, model.transformer.w(batch["input_ids"]).detach())


def visual_bert() -> tuple[nn.Module, dict[str, Tensor]]:
    model = made(hf.VisualBertForQuestionAnswering, hf.VisualBertConfig(**SMALL, visual_embedding_dim=6))
    seen = {"visual_embeds": torch.rand(2, 3, 6), "visual_attention_mask": torch.ones(2, 3).long()}
    return model, TEXT | seen | {"labels": torch.rand(2, 2)}


def layout_lm() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {
        "coordinate_size": 2,
        "shape_size": 4,
        "input_size": 32,
        "patch_size": 16,
        "max_2d_position_embeddings": 64,
    }
    model = made(hf.LayoutLMv3ForSequenceClassification, hf.LayoutLMv3Config(**SMALL, **sizes))
    return model, LABELLED | {"bbox": torch.zeros(2, 8, 4).long(), "pixel_values": IMAGE}


@pytest.mark.parametrize("build", [visual_bert, layout_lm])
def test_image_tokens_stand_behind_the_text_and_its_padding(build: Any) -> None:
    model, batch = build()
    with attached_to(model, toughen.alum()) as attached:
        step(attached, model, batch)
        (delta,) = attached.last_batches[0].perturbation.deltas
    moved = delta.detach().abs().amax(-1) > 0
    assert torch.equal(moved[:, :8], batch["input_ids"] >= 5)
    assert moved[:, 8:].all()


def pvt() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {"num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [8, 16], "num_attention_heads": [1, 2]}
    more = {"mlp_ratios": [2, 2], "sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2], "image_size": 32}
    return made(hf.PvtV2ForImageClassification, hf.PvtV2Config(**sizes, **more)), {
        "pixel_values": IMAGE,
        "labels": torch.tensor([0, 1]),
    }


def funnel() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {"vocab_size": 64, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 16, "n_head": 2, "d_head": 8}
    return made(hf.FunnelForSequenceClassification, hf.FunnelConfig(**sizes, d_inner=32)), LABELLED


@pytest.mark.parametrize("build", [pvt, funnel])
def test_layers_in_lists_and_with_nested_outputs(build: Any) -> None:
    model, batch = build()
    with attached_to(model, toughen.alum()) as attached:
        step(attached, model, batch)
        assert attached.report()["delta_norm"] > 0


Pair = namedtuple("Pair", ["last_hidden_state", "size"])


class Named(nn.Module):
    """A layer that gives a named tuple, another that gives a transformers output."""

    def forward(self, x: Tensor) -> Any:
        return Pair(x, x.shape)


class Record(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return hf.modeling_outputs.BaseModelOutput(last_hidden_state=x)


class Layers(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embed, self.layer, self.out = nn.Embedding(64, 8), layer, nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.out(self.layer(self.embed(input_ids)).last_hidden_state.mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


@pytest.mark.parametrize("layer", [Named(), Record()])
def test_named_outputs_keep_their_names(layer: nn.Module) -> None:
    model = Layers(layer)
    with attached_to(model, toughen.smart(site="layer")) as attached:
        step(attached, model, LABELLED)
        assert attached.report()["delta_norm"] > 0


def test_layers_with_a_backward_pass_of_their_own_are_refused() -> None:
    sizes = {"vocab_size": 64, "hidden_size": 16, "attention_head_size": 8, "num_attention_heads": 2}
    more = {"feed_forward_size": 16, "attn_layers": ["local", "local"], "local_attn_chunk_length": 4}
    config = hf.ReformerConfig(**sizes, **more, axial_pos_shape=[4, 2], axial_pos_embds_dim=[8, 8], is_decoder=False)
    model = made(hf.ReformerForSequenceClassification, config)
    with attached_to(model, toughen.alum()) as attached, pytest.raises(StepError, match=r"Reformer.*toughen.smart"):
        step(attached, model, LABELLED)


def test_padding_that_a_model_adds_is_not_perturbed() -> None:
    sizes = {"vocab_size": 64, "d_model": 16, "attention_window": 4, "pad_token_id": 0, "decoder_start_token_id": 1}
    both = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in (("layers", 1), ("ffn_dim", 16))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = made(hf.LEDForConditionalGeneration, hf.LEDConfig(**sizes, **both, **heads))
    batch = {name: value[:, :7].contiguous() for name, value in TEXT.items()}
    with attached_to(model, toughen.smart()) as attached:
        step(attached, model, batch | {"labels": batch["input_ids"]})
        assert attached.last_batches[0].perturbation.deltas[0].shape == (2, 7, 16)


def test_an_encoder_that_reads_another_module_with_the_same_table() -> None:
    sizes = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    model = made(hf.T5ForTokenClassification, hf.T5Config(**sizes))
    with attached_to(model, toughen.smart()) as attached:
        step(attached, model, TEXT | {"labels": TEXT["input_ids"] % 2})
        assert attached.report()["delta_norm"] > 0


def llava() -> nn.Module:
    vision = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
    sight = hf.CLIPVisionConfig(**vision, image_size=16, patch_size=8, projection_dim=16)
    config = hf.LlavaConfig(text_config=hf.LlamaConfig(**SMALL), vision_config=sight, image_token_index=63)
    return made(hf.LlavaForConditionalGeneration, config)


@pytest.mark.parametrize("method", ["asa", "alum"])
def test_of_a_model_of_text_and_images_the_part_that_reads_text(method: str) -> None:
    model, batch = llava(), TEXT | {"labels": TEXT["input_ids"].clamp(max=62)}
    before = traces(model)
    with attached_to(model, toughen.create_method(method)) as attached:
        step(attached, model, batch | {"input_ids": batch["labels"]})
        report = attached.report()
        assert {"visible_0", "visible_1"} <= report.keys() if method == "asa" else report["delta_norm"] > 0
        assert "visible_2" not in report
    assert traces(model) == before


def test_answers_of_visual_bert_are_one_distribution() -> None:
    model, batch = visual_bert()
    (prediction,) = parse_output(model(**batch), batch, infer_head_type(model), model.config).predictions
    assert prediction.kind == "multiclass"


def wav2vec2() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {name: value for name, value in SMALL.items() if name not in ("vocab_size", "max_position_embeddings")}
    convolutions = {"conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (4, 4), "num_conv_pos_embeddings": 4}
    config = hf.Wav2Vec2Config(**sizes, **convolutions, num_conv_pos_embedding_groups=2, classifier_proj_size=8)
    config.mask_time_prob = config.layerdrop = 0.0
    return made(hf.Wav2Vec2ForSequenceClassification, config), {
        "input_values": torch.rand(2, 400),
        "labels": torch.tensor([0, 1]),
    }


def test_speech_is_perturbed_at_its_feature_projection() -> None:
    model, batch = wav2vec2()
    with attached_to(model, toughen.smart()) as attached:
        step(attached, model, batch)
        assert attached.report()["delta_norm"] > 0
        assert attached.last_batches[0].perturbation.deltas[0].shape[-1] == 16


def canine() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    hashes = {"num_hash_buckets": 16, "num_hash_functions": 2, "local_transformer_stride": 4, "downsampling_rate": 2}
    return made(hf.CanineForSequenceClassification, hf.CanineConfig(**sizes, **hashes)), LABELLED


def resnet() -> tuple[nn.Module, dict[str, Tensor]]:
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], layer_type="basic")
    return made(hf.ResNetForImageClassification, config), {"pixel_values": IMAGE, "labels": torch.tensor([0, 1])}


def perceiver() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {"vocab_size": 64, "max_position_embeddings": 20, "d_model": 8, "num_latents": 4, "d_latents": 8}
    config = hf.PerceiverConfig(**sizes, num_self_attends_per_block=1, num_blocks=1, num_self_attention_heads=2)
    batch = {name: value for name, value in LABELLED.items() if name != "input_ids"}
    return made(hf.PerceiverForSequenceClassification, config), batch | {"inputs": LABELLED["input_ids"]}


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (canine, "canine.char_embeddings"),
        (resnet, "resnet.embedder"),
        (perceiver, "perceiver.input_preprocessor"),  # what it calls its input embeddings are weights
    ],
)
def test_models_without_a_table_are_perturbed_at_their_first_module(build: Any, path: str) -> None:
    model, batch = build()
    with attached_to(model, toughen.smart()) as attached:
        step(attached, model, batch)
        assert attached.report()["delta_norm"] > 0
    assert input_embedding(model) is model.get_submodule(path)


def test_an_attention_that_its_parts_do_not_all_have_comes_back() -> None:
    """DPT's convolutions know no sdpa, and are part of a model that runs it."""
    stem = {"model_type": "bit", "layer_type": "bottleneck", "depths": [1, 1, 1], "hidden_sizes": [8, 8, 16]}
    stem |= {"num_groups": 2, "embedding_size": 8, "out_features": ["stage1", "stage2", "stage3"]}
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
    shapes = {"image_size": 32, "patch_size": 16, "backbone_featmap_shape": [1, 16, 2, 2], "fusion_hidden_size": 8}
    config = hf.DPTConfig(
        **sizes, **shapes, is_hybrid=True, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8] * 4,
        backbone_config=stem | {"global_padding": "same", "embedding_dynamic_padding": True},
    )  # fmt: skip
    model = made(hf.DPTForDepthEstimation, config)
    before = [m.config._attn_implementation for m in model.modules() if isinstance(m, hf.PreTrainedModel)]
    toughen.asa().attach(model).detach()
    assert [m.config._attn_implementation for m in model.modules() if isinstance(m, hf.PreTrainedModel)] == before
    assert len(set(before)) > 1


def test_layers_beside_those_of_the_text_are_not_taken_for_them() -> None:
    """Evolla keeps a tower of proteins in the model of its text, perhaps with as many layers."""
    model = made(hf.BertForSequenceClassification, hf.BertConfig(**SMALL))
    tower = nn.Module()
    tower.inner = nn.Module()
    tower.inner.layer = nn.ModuleList(nn.Identity() for _ in model.bert.encoder.layer)
    model.bert.embeddings.tower = tower  # comes first
    assert layer_path(model, 0) == "bert.encoder.layer.0"


def test_of_several_patch_embeddings_none_is_guessed() -> None:
    model, _ = pvt()
    with pytest.raises(SiteError, match=r"several.*layers\.0\.patch_embedding, .*layers\.1\.patch_embedding"):
        toughen.smart().attach(model)


def test_attention_of_models_without_one_stack_is_refused_and_others_get_theirs_back() -> None:
    sizes = {"depths": [1] * 4, "hidden_sizes": [8] * 4, "num_attention_heads": [1] * 4, "decoder_hidden_size": 8}
    with pytest.raises(SiteError, match=r"not one stack of equal layers.*toughen.smart"):
        toughen.asa().attach(made(hf.SegformerForImageClassification, hf.SegformerConfig(**sizes)))
    half = {"vocab_size": 64, "d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 16}
    with pytest.raises(SiteError, match=r"BartDecoder has 2 .*: some attend to an encoder"):
        toughen.asa().attach(made(hf.BartForCausalLM, hf.BartConfig(**half)))
    model = llava()
    model.config.vision_config._attn_implementation = "eager"
    model.model.language_model.config._attn_implementation = "eager"
    toughen.asa().attach(model).detach()
    assert model.model.language_model.config._attn_implementation == "eager"


class Wrapper(nn.Module):
    """A model that holds one of transformers', as SentenceTransformer's parts do."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.towers = nn.ModuleList(inner)

    def forward(self, **batch: Tensor) -> Any:
        return self.towers[0](**batch)


class Unpack(nn.Module):
    """A stage of a Sequential that takes a batch in one argument, as SentenceTransformer's do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: dict[str, Tensor]) -> Any:
        return self.inner(**batch)


@pytest.mark.parametrize("method", ["smart", "alum", "asa", "freelb", "sift"])
def test_the_embedding_inside_a_wrapper(method: str) -> None:
    inner = FAMILIES["bert"].build(dropout=0.0)
    losses = []
    for model in (inner, Wrapper(inner), nn.Sequential(Unpack(inner))):
        call = model if not isinstance(model, nn.Sequential) else lambda model=model, **batch: model(batch)
        with attached_to(model, toughen.create_method(method)) as attached:
            losses.append(attached.backward(call, text() | {"labels": torch.tensor([0, 2, 1])}))
            assert len(list(model.children())) == len(list(deepcopy(model).children()))
        model.zero_grad()
    assert losses[0] == losses[1] == losses[2]


def test_two_models_in_a_wrapper_are_named() -> None:
    towers = Wrapper(FAMILIES["bert"].build(), FAMILIES["roberta"].build())
    with pytest.raises(SiteError, match=r"towers\.0, towers\.1.*toughen.smart\(site="):
        toughen.smart().attach(towers)
    path = "towers.0.bert.embeddings.word_embeddings"
    for site in (path, Hidden(path)):
        with attached_to(towers, toughen.smart(site=site)) as attached:
            step(attached, towers, text() | {"labels": torch.tensor([0, 2, 1])})
            assert attached.last_batches[0].perturbation.deltas[0].shape[-1] == WIDTH


@pytest.mark.parametrize(
    "name", ["smart", "alum", "fgm", "pgd", "freelb", "freeat", "vat", "creat", "r3f", "r4f", "neftune"]
)
def test_methods_take_a_site(name: str) -> None:
    method = toughen.create_method(name, site="bert.encoder.layer.1")
    assert method.site.at == "bert.encoder.layer.1"
    assert toughen.create_method(name, site=WordEmbedding(skip=())).site == WordEmbedding(skip=())


def test_a_loss_alone_is_enough_where_losses_are_compared() -> None:
    class LossAlone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = FAMILIES["bert"].build()

        def forward(self, **batch: Tensor) -> dict[str, Tensor]:
            return {"loss": self.inner(**batch).loss}

    model, batch = LossAlone(), text() | {"labels": torch.tensor([0, 2, 1])}
    for name in ("plain", "fgm", "freelb", "sam"):
        with attached_to(model, toughen.create_method(name)) as attached:
            assert math.isfinite(step(attached, model, batch))
            assert "divergence_dropout" not in attached.probe()
    with attached_to(model, toughen.smart()) as attached, pytest.raises(StepError, match="no 'logits'"):
        step(attached, model, batch)


@pytest.mark.parametrize("name", ["smart", "freelb", "vat"])
def test_positions_that_a_head_clamps_in_place(name: str) -> None:
    model = made(
        hf.SplinterForQuestionAnswering, hf.SplinterConfig(**{**SMALL, "pad_token_id": 0}, question_token_id=4)
    )
    batch = TEXT | {"start_positions": torch.tensor([1, 90]), "end_positions": torch.tensor([3, 2])}
    given = {key: value.clone() for key, value in batch.items()}
    with attached_to(model, toughen.create_method(name)) as attached:
        assert math.isfinite(step(attached, model, batch))
    assert all(torch.equal(value, given[key]) for key, value in batch.items())


@pytest.mark.parametrize("checkpointing", [False, True])
def test_each_input_of_a_pass_has_its_own_perturbation(checkpointing: bool) -> None:
    """A loss over two texts of other lengths is the sum of two losses, and so is the perturbed one."""
    model = FAMILIES["bert"].build(dropout=0.0)
    site = None
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        site = "bert.encoder.layer.0.attention"
    first, second = (text(lengths) | {"labels": torch.tensor([0, 1])} for lengths in ((8, 5), (6, 4)))
    method = toughen.freelb(site=site, step_size=0.3, max_norm=0.3, init_scale=0.0)

    def both(inputs: Any) -> dict[str, Tensor]:
        again = model(**inputs).loss  # the same input once more is perturbed as before
        return {"loss": (model(**inputs).loss + again) / 2 + model(**second).loss}

    def gradients(step: Any) -> list[Tensor]:
        model.zero_grad()
        step()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    with attached_to(model, method) as attached:
        apart = gradients(lambda: [attached.backward(model, batch) for batch in (first, second)])
        sizes = attached.last_batches[0].perturbation.deltas[0].shape
        together = gradients(lambda: attached.backward(lambda **inputs: both(inputs), first))
        deltas = attached.last_batches[0].perturbation.deltas
    assert [delta.shape[1] for delta in deltas] == [8, 6]
    assert deltas[1].shape == sizes
    for ours, theirs in zip(together, apart, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_head_inside_a_wrapper() -> None:
    model = FAMILIES["bert"].build()
    assert find_classifier(Wrapper(model)) is model.classifier
    with pytest.raises(SiteError, match="no linear head outside its backbone"):
        toughen.temperature().attach(Wrapper(model.bert))
