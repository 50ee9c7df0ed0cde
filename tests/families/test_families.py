"""One table: every family x every method x both sides of padding."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import toughen
from toughen.engine.attached import Attached
from toughen.errors import SiteError
from toughen.sites import Hidden, NormalizedEmbedding, WordEmbedding

from ..tiny import LETTERS, LIKE_TYPOS, make
from .zoo import FAMILIES, batch_for, classifier, text, words

CASES = [(name, side) for name, f in FAMILIES.items() for side in (("right", "left") if f.left else ("right",))]
METHODS = [name for name in toughen.list_methods() if name not in LIKE_TYPOS]
NO_ATTENTION = {  # what ASA says to them
    "albert": "layers that share one.*toughen.smart",
    "mpnet": "computes attention by itself.*toughen.smart",
    "xlnet": "computes attention by itself.*toughen.smart",
    "t5": "is an encoder-decoder.*toughen.smart",
    "bart": "is an encoder-decoder.*toughen.smart",
}
UNTOUCHED = {
    "plain",
    "typos",
    "spectral",
    "temperature",
    "rdrop",
    "bregman",
    "sam",
    "asam",
    "awp",
}  # nothing is perturbed in the forward pass


@contextmanager
def attached_to(model: nn.Module, method: Any, seed: int = 3) -> Iterator[Attached]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attached = method.attach(model, LETTERS, seed=seed, total_steps=10)
    try:
        yield attached
    finally:
        attached.detach()
        model.zero_grad(set_to_none=True)


def refusal(name: str, method: str) -> str | None:
    """Why a family cannot carry a method; None if it can."""
    family = FAMILIES[name]
    if method == "sift" and family.norm is None:
        return "needs one norm inside the embedding block.*Use toughen.smart"
    if method == "typos" and not family.text:
        return "edits text; use toughen.smart"
    if method == "asa" and name in NO_ATTENTION:
        return NO_ATTENTION[name]
    if method == "words" and not family.text:
        return "is no table of token ids.*toughen.smart"
    if method == "alum" and family.layer is None:
        return r"runs 1 module\(s\) as its 2 layers.*site='embeddings'"
    return None


def step(attached: Attached, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return attached.backward(model, batch, step=lambda: None)  # FreeAT's update, which is not made here


def traces(model: nn.Module) -> list[Any]:
    """Everything of a model that a method could leave behind."""
    return [
        (
            name,
            module.training,
            sorted(vars(module)),
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
            len(module._backward_hooks),
            getattr(module, "_gradient_checkpointing_func", None),
        )
        for name, module in model.named_modules()
    ]


@cache
def unused(name: str, side: str) -> set[str]:
    """Weights that plain training gives no gradient either."""
    model, batch = classifier(name), batch_for(FAMILIES[name], side)
    model(**batch).loss.backward()
    found = {weight_name for weight_name, weight in model.named_parameters() if weight.grad is None}
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "side"), CASES)
def test_a_step_is_finite_and_perturbs_only_words(name: str, side: str, method: str) -> None:
    family, model = FAMILIES[name], classifier(name)
    batch = batch_for(family, side)
    reason = refusal(name, method)
    if reason is not None:
        with pytest.raises(SiteError, match=reason), attached_to(model, make(method)):
            pass
        return
    without = unused(name, side)
    with attached_to(model, make(method)) as attached:
        loss = step(attached, model, batch)
        assert torch.isfinite(loss)
        for weight_name, weight in model.named_parameters():
            if weight_name in without:
                continue
            assert weight.grad is not None, weight_name
            assert torch.isfinite(weight.grad).all(), weight_name
        assert sum(float(w.grad.abs().sum()) for w in model.parameters() if w.grad is not None) > 0
        assert all(torch.isfinite(value).all() for value in attached.report().values())
        deltas = attached.last_batches[0].perturbation.deltas
    if method in UNTOUCHED:
        assert deltas == []
        return
    if method == "asa":  # a share of visible pairs for each layer
        assert all(float(share.min()) > 0 and float(share.max()) <= 1 for share in deltas)
        return
    (delta,) = deltas
    moved = delta.detach().abs().amax(-1) > 0
    if not family.text:
        assert moved.all()
    elif method == "words":  # a share of them
        assert moved.any()
        assert not (moved & ~words(batch)).any()
    elif method == "neftune":  # its authors leave padding alone, and nothing else
        assert torch.equal(moved, batch["attention_mask"].bool())
    else:
        assert torch.equal(moved, words(batch))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_detach_leaves_no_trace(name: str, method: str) -> None:
    model, batch = classifier(name), batch_for(FAMILIES[name])
    if method in {"r4f", "spectral"}:  # its head is scaled to spectral norm 1, so it changes weights as training does
        model = FAMILIES[name].build()
    with torch.no_grad():
        before = model.eval()(**batch).logits
    model.train()
    found, weights = traces(model), {k: v.clone() for k, v in model.state_dict().items()}
    if refusal(name, method) is None:
        settings = {"temperature": 1.0} if method == "temperature" else {}  # else the head keeps the division
        with attached_to(model, make(method, **settings)) as attached:
            step(attached, model, batch)
            if method in {"r4f", "spectral"}:
                model.load_state_dict(weights)
            with torch.no_grad():  # evaluation during training is clean
                assert torch.equal(model.eval()(**batch).logits, before)
            model.train()
    else:
        with pytest.raises(SiteError), attached_to(model, make(method)):
            pass
    assert traces(model) == found
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    with torch.no_grad():
        after = model.eval()(**batch).logits
    model.train()
    assert torch.equal(before, after)


@pytest.mark.parametrize("name", FAMILIES)
def test_sites_are_where_the_family_has_them(name: str) -> None:
    family, model = FAMILIES[name], classifier(name)
    modules = dict(model.named_modules())

    def hooked() -> list[str]:
        return [n for n, m in modules.items() if m._forward_hooks or m._forward_pre_hooks]

    class Silent:
        active, batch, special_ids = False, {}, None

    for site, path in (
        (WordEmbedding(), family.embedding),
        (NormalizedEmbedding(), family.norm),
        (Hidden(0), family.layer),
    ):
        if path is None:
            continue
        detach = site.attach(model, Silent())  # type: ignore[arg-type]
        (found,) = hooked()
        assert fnmatchcase(found, path), found
        detach()
        assert hooked() == []


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_a_shared_embedding_is_perturbed_in_the_encoder_alone(kind: str) -> None:
    """`resize_token_embeddings` makes encoder and decoder call one module, with inputs of different lengths."""
    model = FAMILIES[kind].build(hf.AutoModelForSeq2SeqLM, dropout=0.0)
    batch = text() | {"labels": torch.tensor([[5, 6, 7, 2], [8, 9, 2, -100], [10, 11, 12, 2]])}
    apart = FAMILIES[kind].build(hf.AutoModelForSeq2SeqLM, dropout=0.0)
    model.resize_token_embeddings(80)
    apart.resize_token_embeddings(80)
    apart.load_state_dict(model.state_dict())
    assert model.get_encoder().get_input_embeddings() is model.get_decoder().get_input_embeddings()
    embedding = apart.get_decoder().get_input_embeddings()
    copy = type(embedding)(*embedding.weight.shape, PAD_OF[kind], **SCALE_OF[kind])
    copy.weight = embedding.weight
    apart.get_decoder().set_input_embeddings(copy)
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    losses, grads = [], []
    for one in (model, apart):
        with attached_to(one, toughen.smart()) as attached:
            losses.append(step(attached, one, batch))
            (delta,) = attached.last_batches[0].perturbation.deltas
            assert delta.shape[1] == 7  # the encoder's length
            grads.append([p.grad.clone() for p in one.parameters() if p.grad is not None])
    assert torch.equal(losses[0], losses[1])
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*grads, strict=True))
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()] == hooks


PAD_OF = {"t5": None, "bart": 0}
SCALE_OF: dict[str, dict[str, Any]] = {"t5": {}, "bart": {"embed_scale": 1.0}}


@pytest.mark.parametrize("method", ["smart", "sift", "alum", "r3f"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_that_a_model_adds_is_left_alone_too(method: str, side: str) -> None:
    """Longformer lengthens a batch to a multiple of its window before it embeds it."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
    config = hf.LongformerConfig(
        **sizes, **ids, intermediate_size=64, max_position_embeddings=32, attention_window=[4, 4], num_labels=3
    )
    model, batch = hf.LongformerForSequenceClassification(config), batch_for(FAMILIES["bert"], side)
    with attached_to(model, make(method)) as attached:
        step(attached, model, batch)
        (delta,) = attached.last_batches[0].perturbation.deltas
    moved = delta.detach().abs().amax(-1) > 0
    assert torch.equal(moved[:, :7], words(batch))
    assert not moved[:, 7:].any()
    assert moved.shape[1] == 8


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig"])
@pytest.mark.parametrize("method", ["smart", "sift", "alum"])
def test_a_learnt_prompt_is_left_alone(method: str, kind: str) -> None:
    """A prompt comes before the embedded words, and a prefix into attention: sites inside see longer texts, or not."""
    peft = pytest.importorskip("peft")
    settings = getattr(peft, kind)(task_type="SEQ_CLS", num_virtual_tokens=3)
    model, batch = peft.get_peft_model(FAMILIES["bert"].build(), settings), batch_for(FAMILIES["bert"])
    with attached_to(model, make(method)) as attached:
        step(attached, model, batch)
        (delta,) = attached.last_batches[0].perturbation.deltas
    moved = delta.detach().abs().amax(-1) > 0
    assert torch.equal(moved[:, -7:], words(batch))
    assert not moved[:, :-7].any()


def test_a_layer_number_means_a_block_even_where_blocks_are_lists() -> None:
    model = FAMILIES["t5"].build(num_layers=1)
    with attached_to(model, toughen.alum(layer=-1)):
        # The model itself, "", is watched for plain training.
        hooked = [name for name, module in model.named_modules() if name and module._forward_hooks]
    assert hooked == ["transformer.encoder.block.0"]


def test_gradient_checkpointing_functions_are_given_back() -> None:
    model = FAMILIES["bert"].build(dropout=0.0)
    model.gradient_checkpointing_enable()
    found = traces(model)
    with attached_to(model, toughen.alum()) as attached:
        step(attached, model, batch_for(FAMILIES["bert"]))
        assert traces(model) != found
    assert traces(model) == found


@pytest.mark.parametrize("method", ["smart", "freelb", "neftune"])
def test_an_embedding_that_gives_its_size_as_well(method: str) -> None:
    """Swin's patches come with the height and width of their grid."""
    sizes = {"image_size": 16, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2}
    torch.manual_seed(0)
    model = hf.SwinForImageClassification(hf.SwinConfig(num_labels=3, **sizes)).train()
    batch = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 2])}
    with attached_to(model, make(method)) as attached:
        assert torch.isfinite(step(attached, model, batch))
        assert attached.last_batches[0].perturbation.deltas[0].shape == (2, 16, 16)


def test_a_layer_that_gives_a_list() -> None:
    """As the blocks of the first GPT do."""
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 64, "pad_token_id": 0}
    model = hf.OpenAIGPTForSequenceClassification(hf.OpenAIGPTConfig(num_labels=3, **sizes)).train()
    batch = text() | {"labels": torch.tensor([0, 2, 1])}
    with attached_to(model, toughen.alum(0)) as attached:
        assert torch.isfinite(step(attached, model, batch))
        assert attached.last_batches[0].perturbation.deltas[0].shape == (3, 7, 32)
