"""Layers without padding compute what they compute with it."""

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

import toughen
from tests.tiny import NO_DROPOUT, SMALL, TOKENIZER, assert_same_gradients, bert, gradients, text_batch
from toughen.cuda_graphs.eligibility import can_pack
from toughen.cuda_graphs.packing import (
    NUM_BUCKETS,
    STACKS,
    Packing,
    layout,
    packing_of,
    real_tokens,
    round_up_tokens,
    tokens_to_compute,
)
from toughen.errors import RobustnessWarning

SIZES = {**SMALL, **NO_DROPOUT, "pad_token_id": 0}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "dropout": 0.0}
DISTIL |= {"attention_dropout": 0.0, "seq_classif_dropout": 0.0}


def model_of(family, kind=AutoModelForSequenceClassification):
    torch.manual_seed(0)
    return kind.from_config(
        AutoConfig.for_model(family, **SIZES, **(DISTIL if family == "distilbert" else {}))
    ).double()


@pytest.mark.parametrize("family", STACKS)
@pytest.mark.parametrize("spare", [0, 3])
def test_same_outputs_and_gradients(family, spare):
    model, batch = model_of(family), text_batch(4, 10)
    reference = model(**batch)
    reference.loss.backward()
    wanted = gradients(model)
    model.zero_grad()
    packing = Packing(model)
    with packing.of(batch, real_tokens(batch) + spare):
        found = model(**batch)
    found.loss.backward()
    torch.testing.assert_close(found.logits, reference.logits)
    assert_same_gradients(gradients(model), wanted, 1e-12)
    packing.detach()
    assert model.config._attn_implementation == "sdpa"
    assert not any("_toughen" in name for module in model.modules() for name in vars(module))


def test_only_the_asked_number_of_tokens_is_computed():
    model, batch = model_of("bert"), text_batch(4, 10)
    seen = []
    model.bert.encoder.layer[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    packing = Packing(model)
    with packing.of(batch, 36):
        model(**batch)
    model(**batch)  # outside: as always
    assert seen == [(1, 36, 32), (4, 10, 32)]


def test_token_predictions_of_real_tokens():
    model, batch = model_of("bert", AutoModelForTokenClassification), text_batch(4, 10)
    del batch["labels"]
    real = batch["attention_mask"].bool()
    reference = model(**batch).logits[real]
    with Packing(model).of(batch, 40):
        assert torch.allclose(model(**batch).logits[real], reference)


@pytest.mark.parametrize("name", ["smart", "freelb", "sift", "r3f", "creat"])
def test_a_method_on_a_packed_model(name):
    batch, wanted = text_batch(4, 10), None
    for packed in (False, True):
        model = bert()
        with toughen.make(name).attach(model, TOKENIZER, seed=3) as attached:
            assert can_pack(attached.states)
            if packed:
                with Packing(model).of(batch, 36):
                    attached.backward(model, batch)
                assert_same_gradients(gradients(model), wanted, 1e-9)
            else:
                attached.backward(model, batch)
                wanted = gradients(model)


@pytest.mark.parametrize("name", ["asa", "alum"])
def test_methods_inside_the_layers_keep_their_padding(name):
    with toughen.make(name).attach(bert(), TOKENIZER) as attached:
        assert not can_pack(attached.states)


@pytest.mark.parametrize(("rows", "length", "real"), [(64, 7, 3), (128, 32, 1), (512, 9, 2), (3, 3, 2)])
@pytest.mark.parametrize("more", [0, 1])
def test_the_spare_tokens_are_texts_of_their_own(rows, length, real, more):
    mask = torch.zeros(rows, length, dtype=torch.long)
    mask[:, :real] = 1
    mask[0, : real + more] = 1  # one more than a whole step leaves nearly a step to spare
    tokens = round_up_tokens(int(mask.sum()), rows * length)
    laid = layout(mask, tokens)
    assert tokens % max(-(-rows * length // NUM_BUCKETS), 8) == 0 or tokens == rows * length
    assert int(laid.ends[-1]) == tokens
    assert int(laid.ends.diff().min()) >= 0
    assert int(laid.ends.diff().max()) <= length
    assert laid.index.unique().numel() == tokens


def test_texts_that_start_with_padding_are_left_alone():
    assert real_tokens({"attention_mask": torch.tensor([[0, 1, 1], [1, 1, 1]])}) is None
    assert real_tokens({"attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}) == 5


@pytest.mark.parametrize("shape", [(4, 1, 10, 10), (4, 10, 10)])
def test_a_mask_of_pairs_is_no_padding(shape):
    batch = {"input_ids": text_batch(4, 10)["input_ids"], "attention_mask": torch.ones(shape, dtype=torch.bool).tril()}
    assert real_tokens(batch) is None
    embeds = {"inputs_embeds": torch.zeros(4, 10, 8), "attention_mask": batch["attention_mask"]}
    assert real_tokens(embeds) is None
    assert real_tokens({**embeds, "attention_mask": torch.ones(4, 10)}) == 40


def test_a_mask_of_pairs_that_hides_nothing_is_kept():
    """A decoder without it would not look ahead."""
    sizes = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "num_labels": 3, "initializer_range": 0.5}
    config = AutoConfig.for_model("gpt2", **sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = text_batch(4, 10)
    batch["input_ids"].clamp_(min=3)
    causal = batch | {"attention_mask": torch.ones(4, 10, dtype=torch.long)}
    batch["attention_mask"] = torch.ones(4, 1, 10, 10, dtype=torch.bool)
    with toughen.plain().attach(model) as attached:
        both_ways = attached.backward(model, batch)
        assert not torch.allclose(both_ways, attached.backward(model, causal))
        with pytest.warns(RobustnessWarning, match="eagerly"):
            captured = attached.capture(model)(batch)
        assert torch.equal(captured, both_ways)


def test_a_mask_stays_where_texts_hold_the_padding_token():
    """A decoder's padding is often its end of text: without the mask its head would read one token too early."""
    config = AutoConfig.for_model("gpt2", vocab_size=100, n_embd=32, n_layer=2, n_head=4, pad_token_id=2)
    config.bos_token_id = config.eos_token_id = 2
    torch.manual_seed(0)
    model = toughen.second_order(AutoModel.from_config(config), num_labels=3, q=8, k=8, dropout=0.0).eval()
    batch = text_batch(4, 10)
    batch["attention_mask"][:], batch["input_ids"][:, -1] = 1, 2
    assert real_tokens(batch, pad=2) is None
    with toughen.plain().attach(model) as attached, pytest.warns(RobustnessWarning, match="eagerly"):
        assert torch.equal(attached.capture(model)(batch), attached.backward(model, batch))


def test_where_it_pays():
    full, long = {"attention_mask": torch.ones(64, 512)}, {"attention_mask": torch.ones(64, 512)}
    long["attention_mask"][:32, 256:] = 0
    small = {"attention_mask": torch.tensor([[1, 1, 0, 0]])}
    assert tokens_to_compute(full, real_tokens(full)) is None
    assert tokens_to_compute(small, real_tokens(small)) is None
    assert tokens_to_compute(long, real_tokens(long)) == 24 * 1024
    assert packing_of(bert(), half=True) is None  # no such kernel on a CPU
