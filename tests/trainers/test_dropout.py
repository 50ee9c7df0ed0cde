"""Dropout policies: one mask for all passes, a fresh one for each, or none."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BartConfig,
    BartForSequenceClassification,
    FalconConfig,
    Starcoder2Config,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
)

import toughen
from toughen.compare.model_outputs import ModelOutputs
from toughen.errors import SiteError
from toughen.internal.rng import RngSnapshot, without_dropout

from ..tiny import small_bert as bert
from .driving import collated, texts

pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")


def bart() -> BartForSequenceClassification:
    """Its layers call functional dropout with rates of their own."""
    torch.manual_seed(0)
    return BartForSequenceClassification(
        BartConfig(
            vocab_size=48,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            max_position_embeddings=32,
            num_labels=3,
            dropout=0.3,
            activation_dropout=0.2,
            attention_dropout=0.2,
        )
    )


def rows() -> dict[str, Any]:
    batch = collated(texts(8))
    batch["input_ids"][:, 3] = 2  # BART reads its sentence at the end-of-text token
    batch["input_ids"][:, 4:] = batch["input_ids"][:, 4:].clamp(min=5)
    batch["attention_mask"][:] = 1
    return batch


class Recording:
    """A comparison that keeps what it is given."""

    needs_clean = True

    def __init__(self) -> None:
        self.pairs: list[tuple[ModelOutputs, ModelOutputs]] = []

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Any) -> torch.Tensor:
        assert clean is not None
        self.pairs.append((perturbed, clean))
        return perturbed.predictions[0].scores.square().mean()


def functional_rates(model: Any) -> dict[str, float]:
    return {n: m.dropout for n, m in model.named_modules() if isinstance(getattr(m, "dropout", None), float)}


def logits(model: Any, dropout: str, checkpointing: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Clean and "perturbed" logits of one step with a perturbation of zero, and a check that the model is as it was."""
    model.train()
    next(m for m in model.modules() if isinstance(m, torch.nn.Linear)).eval()  # a flag that must survive
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    flags = {name: module.training for name, module in model.named_modules()}
    rates = {n: m.p for n, m in model.named_modules() if isinstance(m, torch.nn.Dropout)}
    own = functional_rates(model)
    compare = Recording()
    method = toughen.r3f(dropout=dropout, init_scale=0.0)  # draws noise, which must not come from dropout's stream
    torch.manual_seed(3)
    with replace(method, compare=compare).attach(model) as attached:
        attached.backward(model, rows())
    assert flags == {name: module.training for name, module in model.named_modules()}
    assert rates == {n: m.p for n, m in model.named_modules() if isinstance(m, torch.nn.Dropout)}
    assert own == functional_rates(model)
    perturbed, clean = compare.pairs[0]
    return perturbed.predictions[0].scores.detach(), clean.predictions[0].scores.detach()


@pytest.mark.parametrize("make", [lambda: bert(0.3), bart], ids=["bert", "bart"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_policies(make: Any, checkpointing: bool) -> None:
    with torch.no_grad():
        still = make().eval()(**rows()).logits
        torch.manual_seed(3)
    perturbed, clean = logits(make(), "shared", checkpointing)
    assert torch.equal(perturbed, clean)
    assert not torch.allclose(clean, still, atol=1e-4)  # there was dropout
    perturbed, clean = logits(make(), "fresh", checkpointing)
    assert not torch.allclose(perturbed, clean, atol=1e-4)
    perturbed, clean = logits(make(), "off", checkpointing)
    torch.testing.assert_close(perturbed, still)
    torch.testing.assert_close(clean, still)


@pytest.mark.parametrize("lead", [toughen.freelb(), toughen.neftune(), toughen.smart("paper"), toughen.pgd()])
@pytest.mark.parametrize("fresh", [toughen.rdrop(), toughen.r3f("paper")])
def test_in_a_sum_one_mask_is_that_of_the_clean_pass(lead: Any, fresh: Any) -> None:
    """Whoever asked for the clean pass first, and however many passes were made before it."""
    model, compare = bert(0.3).train(), Recording()
    one_mask = replace(toughen.r3f(dropout="shared", init_scale=0.0), compare=compare)
    with (lead + fresh + one_mask).attach(model, seed=1) as attached:
        attached.backward(model, rows())
    perturbed, clean = compare.pairs[0]
    torch.testing.assert_close(perturbed.predictions[0].scores, clean.predictions[0].scores)


def test_every_stream_goes_back() -> None:
    """Of torch, numpy and Python: models draw from all three."""
    before = RngSnapshot(torch.device("cpu"))
    draws = []
    for _ in range(2):
        draws.append((torch.rand(()).item(), np.random.rand(), random.random()))
        before.restore()
    assert draws[0] == draws[1]


def test_batch_norm_stays_as_it_is_without_dropout() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout()).train()
    with without_dropout(model):
        assert [module.training for module in model] == [True, False]
    assert model[1].training


@pytest.mark.parametrize("dropout", ["shared", "fresh", "off"])
def test_a_step_leaves_the_stream_where_one_pass_would(dropout: str) -> None:
    """With one mask for all passes, training goes on with the masks it would have had without the method."""
    states = []
    for method in (toughen.plain(), toughen.smart(dropout=dropout)):
        model = bert(0.3).train()
        torch.manual_seed(3)
        with method.attach(model) as attached:
            attached.backward(model, rows())
        states.append(torch.get_rng_state())
    assert torch.equal(*states) == (dropout == "shared")


@pytest.mark.parametrize("checkpointing", [False, True])
def test_no_dropout_is_the_gradient_of_a_model_without(checkpointing: bool) -> None:
    found = []
    for model in (bert(0.3), bert(0.0)):
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        with toughen.smart(dropout="off").attach(model.train(), seed=1) as attached:
            attached.backward(model, rows())
        found.append([p.grad for p in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def speech(**rates: float) -> Wav2Vec2ForSequenceClassification:
    """It hides frames by numpy's random numbers, and skips layers at its config's rate."""
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 37}
    ears = {"conv_dim": (16,), "conv_stride": (20,), "conv_kernel": (25,), "num_feat_extract_layers": 1}
    still = dict.fromkeys(("hidden_dropout", "attention_dropout", "activation_dropout", "feat_proj_dropout"), 0.0)
    rest = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_length": 4, "num_labels": 3}
    return Wav2Vec2ForSequenceClassification(Wav2Vec2Config(**small, **ears, **still, **rest, **rates)).train()


@pytest.mark.parametrize(
    "rates", [{"mask_time_prob": 0.4, "layerdrop": 0.0}, {"mask_time_prob": 0.0, "layerdrop": 0.5}], ids=str
)
@pytest.mark.parametrize("dropout", ["shared", "off"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_frames_and_layers_left_out_are_part_of_the_mask(rates: Any, dropout: Any, checkpointing: bool) -> None:
    model, compare = speech(**rates), Recording()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    sound = torch.randn(3, 1600, generator=torch.Generator().manual_seed(1))
    batch = {"input_values": sound, "labels": torch.tensor([0, 1, 2])}
    with torch.no_grad():
        still = speech(**rates).eval()(**batch).logits
    small = {"init_scale": 1e-9, "step_size": 1e-9, "max_norm": 1e-9}
    method = replace(toughen.alum("feature_projection", dropout=dropout, **small), compare=compare)
    np.random.seed(0)
    with method.attach(model) as attached:
        for _ in range(4):  # of a few layers none may be skipped at first
            attached.backward(model, batch)
    for perturbed, clean in compare.pairs:
        torch.testing.assert_close(perturbed.predictions[0].scores, clean.predictions[0].scores)
        if dropout == "off":
            torch.testing.assert_close(clean.predictions[0].scores, still)
    assert model.config.layerdrop == rates["layerdrop"]


@pytest.mark.parametrize("kind", [FalconConfig, Starcoder2Config])
def test_rates_of_checkpointed_layers_are_off_wherever_they_stand(kind: Any) -> None:
    """Falcon's layers read theirs from the config, Starcoder 2 drops what it embeds."""
    rates = dict.fromkeys(("hidden_dropout", "attention_dropout", "embedding_dropout", "residual_dropout"), 0.3)
    sizes = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "pad_token_id": 0}
    torch.manual_seed(0)
    config = kind(**sizes, **rates, num_attention_heads=4, num_labels=3)
    model: Any = AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        still = model.eval()(**rows()).logits
    before = config.to_dict()
    perturbed, clean = logits(model, "off", checkpointing=True)
    torch.testing.assert_close(perturbed, still)
    torch.testing.assert_close(clean, still)
    assert config.to_dict() == before


def test_a_layer_that_is_skipped_is_told_of() -> None:
    model = speech(layerdrop=1.0)
    batch = {"input_values": torch.randn(2, 1600), "labels": torch.tensor([0, 1])}
    with toughen.alum(0).attach(model) as attached, pytest.raises(SiteError, match="layerdrop=0"):
        attached.backward(model, batch)


class Functional(torch.nn.Module):
    """A model of one's own that calls functional dropout by itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = torch.nn.Embedding(48, 16), torch.nn.Linear(16, 3)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.words

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **_: Any) -> dict[str, Any]:
        hidden = torch.nn.functional.dropout(self.words(input_ids).mean(1), 0.5, self.training)
        scores = self.head(hidden)
        loss = None if labels is None else torch.nn.functional.cross_entropy(scores, labels)
        return {"loss": loss, "logits": scores}


def test_dropout_of_the_model_itself_is_off_too() -> None:
    with torch.no_grad():
        still = Functional().eval()(**rows())["logits"]
    perturbed, clean = logits(Functional(), "off", checkpointing=False)
    torch.testing.assert_close(perturbed, still)
    torch.testing.assert_close(clean, still)
