"""Every kind of head x every method: what counts in the comparison is what the head predicts."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import toughen
from toughen.compare import Divergence
from toughen.compare.model_outputs import ModelOutputs, parse_output
from toughen.engine.features import class_token
from toughen.errors import SiteError
from toughen.internal.architectures import IGNORED, infer_head_type

from ..tiny import make
from .test_families import METHODS, NO_ATTENTION, UNTOUCHED, attached_to, step
from .zoo import FAMILIES, batch_for, text, words


def token_labels() -> dict[str, Tensor]:
    """A label for every word, none for special tokens and padding, as tokenizers' word_ids() give them."""
    batch = text()
    return batch | {"labels": torch.where(words(batch), batch["input_ids"] % 3, IGNORED)}


def masked_words() -> dict[str, Tensor]:
    batch = text()
    hidden = words(batch) & (torch.arange(7) % 2 == 1)
    return batch | {"labels": torch.where(hidden, batch["input_ids"], IGNORED)}


def continuation() -> dict[str, Tensor]:
    batch = text()
    return batch | {"labels": torch.where(batch["attention_mask"] == 1, batch["input_ids"], IGNORED)}


def replaced() -> dict[str, Tensor]:
    batch = text()
    return batch | {"labels": (batch["input_ids"] % 2) * words(batch)}


def choices() -> dict[str, Tensor]:
    one, two = text(), text(seed=2)
    return {key: torch.stack([one[key], two[key]], dim=1) for key in one} | {"labels": torch.tensor([0, 1, 1])}


def seq2seq() -> dict[str, Tensor]:
    labels = torch.tensor([[5, 6, 7, 2], [8, 9, 2, IGNORED], [10, 11, 12, 2]])
    return text() | {"labels": labels}


def spans() -> dict[str, Tensor]:
    return text() | {"start_positions": torch.tensor([1, 1, 2]), "end_positions": torch.tensor([3, 2, 4])}


@dataclass(frozen=True)
class Head:
    family: str
    auto: Any
    batch: Callable[[], dict[str, Tensor]]
    kind: str
    task: str = "sequence"
    settings: dict[str, Any] = field(default_factory=dict)
    tied: bool = False  # the head's weights are the embedding's


_FLOATS = {"labels": torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])}
_SHARES = {"labels": torch.tensor([[0.7, 0.1, 0.2], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])}
_VALUES = {"labels": torch.tensor([0.5, -1.0, 2.0])}
_SENTENCE = hf.AutoModelForSequenceClassification
HEADS = {
    "choices": Head("bert", hf.AutoModelForMultipleChoice, choices, "multiclass", "choices"),
    "tokens": Head("bert", hf.AutoModelForTokenClassification, token_labels, "multiclass", "tokens", {"num_labels": 3}),
    "tokens-llama": Head(
        "llama", hf.AutoModelForTokenClassification, token_labels, "multiclass", "tokens", {"num_labels": 3}
    ),
    "span": Head("bert", hf.AutoModelForQuestionAnswering, spans, "multiclass", "span"),
    "masked-lm": Head("bert", hf.AutoModelForMaskedLM, masked_words, "multiclass", "masked_lm", tied=True),
    "causal-lm": Head("llama", hf.AutoModelForCausalLM, continuation, "multiclass", "causal_lm"),
    "causal-lm-gpt2": Head("gpt2", hf.AutoModelForCausalLM, continuation, "multiclass", "causal_lm", tied=True),
    "seq2seq-t5": Head("t5", hf.AutoModelForSeq2SeqLM, seq2seq, "multiclass", "seq2seq_lm", tied=True),
    "seq2seq-bart": Head("bart", hf.AutoModelForSeq2SeqLM, seq2seq, "multiclass", "seq2seq_lm", tied=True),
    "multi-label": Head(
        "bert", _SENTENCE, lambda: text() | _FLOATS, "multilabel", settings={"num_labels": 3, "problem_type": None}
    ),
    "multi-label-llama": Head("llama", _SENTENCE, lambda: text() | _FLOATS, "multilabel", settings={"num_labels": 3}),
    "soft-labels-deberta": Head(
        "deberta-v2", _SENTENCE, lambda: text() | _SHARES, "multiclass", settings={"num_labels": 3}
    ),
    "token_binary": Head("electra", hf.AutoModelForPreTraining, replaced, "multilabel", "token_binary"),
    "regression": Head("bert", _SENTENCE, lambda: text() | _VALUES, "regression", settings={"num_labels": 1}),
    "regression-deberta": Head(
        "deberta-v2", _SENTENCE, lambda: text() | _VALUES, "regression", settings={"num_labels": 1}
    ),
    "regression-llama": Head("llama", _SENTENCE, lambda: text() | _VALUES, "regression", settings={"num_labels": 1}),
}


NO_VIEWS = {"span", "masked_lm", "causal_lm", "token_binary"}


@cache
def model_of(head: str) -> nn.Module:
    one = HEADS[head]
    return FAMILIES[one.family].build(one.auto, **one.settings)


def refusal(head: str, method: str) -> str | None:
    """Why a head cannot carry a method; None if it can."""
    one = HEADS[head]
    if method == "sift" and FAMILIES[one.family].norm is None:
        return "needs one norm inside the embedding block"
    if method in {"r4f", "spectral", "temperature"} and one.tied:
        return "shares its weights with the input embedding.*r3f"
    if method == "temperature" and head.startswith("regression"):
        return "predicts one number"
    if method == "typos" and one.task in NO_VIEWS:
        return "tokens or positions of its own text"
    return NO_ATTENTION.get(one.family) if method == "asa" else None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("head", HEADS)
def test_a_step_is_finite(head: str, method: str) -> None:
    one, model = HEADS[head], model_of(head)
    batch = one.batch()
    refused = refusal(head, method)
    if refused:
        with pytest.raises(SiteError, match=refused), attached_to(model, make(method)) as attached:
            step(attached, model, batch)
        return
    settings = {"temperature": 1.0} if method == "temperature" else {}  # else the shared model keeps the division
    with attached_to(model, make(method, **settings)) as attached:
        assert torch.isfinite(step(attached, model, batch))
        grads = [weight.grad for weight in model.parameters() if weight.grad is not None]
        assert all(torch.isfinite(grad).all() for grad in grads)
        assert any(grad.abs().sum() > 0 for grad in grads)
        report = attached.report()
        assert all(torch.isfinite(value).all() for value in report.values())
        if method in {"smart", "alum", "sift", "vat", "r3f", "r4f"}:
            assert report["term"] > 0  # the comparison sees the perturbation
        if method not in UNTOUCHED | {"neftune", "asa"}:
            (delta,) = attached.last_batches[0].perturbation.deltas
            flat = {key: batch[key].reshape(-1, 7) for key in ("input_ids",)}
            moved = delta.detach().abs().amax(-1) > 0
            assert torch.equal(moved & words(flat), moved) if method == "words" else torch.equal(moved, words(flat))


def outcome_of(head: str) -> tuple[ModelOutputs, dict[str, Tensor]]:
    model, batch = model_of(head), HEADS[head].batch()
    with torch.no_grad():
        return parse_output(model(**batch), batch, infer_head_type(model), model.config), batch


@pytest.mark.parametrize("head", HEADS)
def test_the_head_is_read_as_what_it_is(head: str) -> None:
    outcome, _ = outcome_of(head)
    assert infer_head_type(model_of(head)) == HEADS[head].task
    assert {p.kind for p in outcome.predictions} == {HEADS[head].kind}
    assert len(outcome.predictions) == (2 if HEADS[head].task == "span" else 1)


@pytest.mark.parametrize("head", ["tokens", "tokens-llama", "masked-lm", "seq2seq-t5", "seq2seq-bart"])
def test_labelled_positions_count_and_no_others(head: str) -> None:
    outcome, batch = outcome_of(head)
    (prediction,) = outcome.predictions
    assert torch.equal(prediction.mask, batch["labels"] != IGNORED)


def test_every_token_that_is_no_padding_has_a_flag() -> None:
    outcome, batch = outcome_of("token_binary")
    (prediction,) = outcome.predictions
    assert prediction.scores.shape == (*batch["labels"].shape, 1)
    assert torch.equal(prediction.mask, batch["attention_mask"].bool())


def test_an_answer_about_an_image_or_a_table_is_no_span() -> None:
    assert infer_head_type(hf.ViltForQuestionAnswering.__new__(hf.ViltForQuestionAnswering)) == "sequence"
    assert infer_head_type(hf.TapasForQuestionAnswering.__new__(hf.TapasForQuestionAnswering)) == "token_binary"


def test_movements_of_a_robot_are_real_numbers_of_which_all_count() -> None:
    """PI0's logits (B, steps, joints) are no classes, and its text and images are longer than they."""
    task = infer_head_type(hf.PI0ForConditionalGeneration.__new__(hf.PI0ForConditionalGeneration))
    batch = {name: torch.ones(2, 13, dtype=torch.long) for name in ("input_ids", "attention_mask", "labels")}
    outcome = parse_output({"loss": torch.tensor(0.0), "logits": torch.ones(2, 4, 3)}, batch, task)
    still = ModelOutputs(None, (replace(outcome.predictions[0], scores=torch.zeros(2, 4, 3)),))
    assert Divergence()(outcome, still, ()) == 1  # the mean square


@pytest.mark.parametrize("head", ["causal-lm", "causal-lm-gpt2"])
def test_a_causal_model_counts_where_the_next_token_has_a_label(head: str) -> None:
    outcome, batch = outcome_of(head)
    (prediction,) = outcome.predictions
    expected = torch.zeros_like(batch["labels"], dtype=torch.bool)
    expected[:, :-1] = batch["labels"][:, 1:] != IGNORED
    assert torch.equal(prediction.mask, expected)


_LM = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
_EYE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32, "image_size": 28}
_HALF = {
    **{"vocab_size": 64, "pad_token_id": 0, "d_model": 32, "hidden_size": 32, "decoder_layers": 1},
    **{"decoder_attention_heads": 4, "decoder_ffn_dim": 64, "is_decoder": True, "is_encoder_decoder": False},
}


def half(family: str) -> Any:
    """The decoder of an encoder-decoder, as a model of its own."""
    return getattr(hf, f"{family}ForCausalLM")(getattr(hf, f"{family}Config")(**_HALF))


_HALVES = (
    *("Bart", "MBart", "PLBart", "Blenderbot", "BlenderbotSmall", "Pegasus", "BigBirdPegasus", "Marian", "Mvp"),
    "TrOCR",
)
LANGUAGE: dict[str, Callable[[], Any]] = {
    **{family: partial(half, family) for family in _HALVES},
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=4)),
    "t5": lambda: model_of("seq2seq-t5"),
    "xlnet": lambda: hf.XLNetLMHeadModel(hf.XLNetConfig(vocab_size=64, d_model=32, n_layer=1, n_head=4, d_inner=64)),
    "xlm": lambda: hf.XLMWithLMHeadModel(hf.XLMConfig(vocab_size=64, emb_dim=32, n_layers=1, n_heads=4)),
    "reformer": lambda: hf.ReformerModelWithLMHead(
        hf.ReformerConfig(
            **_LM, is_decoder=True, attn_layers=["local"], axial_pos_embds=False, local_attn_chunk_length=6,
            attention_head_size=8, feed_forward_size=32,
        )
    ),
    "llava": lambda: hf.LlavaForConditionalGeneration(
        hf.LlavaConfig(
            vision_config=hf.CLIPVisionConfig(**_EYE, patch_size=14), text_config=hf.LlamaConfig(**_LM),
            image_token_index=63,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LANGUAGE)
def test_positions_of_language_models_count_where_their_loss_is(name: str) -> None:
    """Read off the model itself: the loss has a gradient at a position's logits where a label is predicted from it."""
    torch.manual_seed(0)
    model = LANGUAGE[name]().eval()
    batch = {"input_ids": torch.randint(5, 60, (2, 6))}
    batch["labels"] = batch["input_ids"].where(torch.tensor([0, 0, 1, 0, 1, 1]) == 1, IGNORED)
    output = model(**batch)
    (slope,) = torch.autograd.grad(output.loss, output.logits)
    (prediction,) = parse_output(output, batch, infer_head_type(model), model.config).predictions
    assert torch.equal(prediction.mask, slope.abs().amax(-1) > 0)


def test_the_last_position_of_a_prompt_predicts_the_first_label() -> None:
    peft = pytest.importorskip("peft")
    settings = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(FAMILIES["llama"].build(hf.AutoModelForCausalLM), settings)
    batch = continuation()
    output = model(**batch)
    (slope,) = torch.autograd.grad(output.loss, output.logits)
    (prediction,) = parse_output(output, batch, infer_head_type(model), model.config).predictions
    assert torch.equal(prediction.mask, slope.abs().amax(-1) > 0)


def test_unlabelled_tokens_count_where_there_is_text() -> None:
    model, batch = model_of("tokens"), token_labels()
    labels = batch.pop("labels")
    with torch.no_grad():
        (prediction,) = parse_output(model(**batch), batch, "tokens", model.config).predictions
    assert labels.shape == prediction.mask.shape
    assert torch.equal(prediction.mask, batch["attention_mask"].bool())


def test_a_span_gives_no_probability_to_padding() -> None:
    outcome, batch = outcome_of("span")
    for prediction in outcome.predictions:
        assert prediction.scores.softmax(-1)[batch["attention_mask"] == 0].sum() == 0


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("head", ["span", "tokens", "multi-label"])
def test_tuples_are_read_as_named_outputs(head: str, labelled: bool) -> None:
    model, batch = model_of(head).eval(), HEADS[head].batch()
    batch = batch if labelled else {key: batch[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        named, ordered = (model(**batch, return_dict=kind) for kind in (True, False))
    one, other = (parse_output(output, batch, infer_head_type(model), model.config) for output in (named, ordered))
    assert (one.loss is None, other.loss is None) == (not labelled, not labelled)
    for theirs, ours in zip(one.predictions, other.predictions, strict=True):
        assert torch.equal(theirs.scores, ours.scores)


def test_problem_type_decides_where_it_is_set() -> None:
    family = FAMILIES["bert"]
    batch = text()
    for problem, columns, kind in (
        ("regression", 3, "regression"),
        ("multi_label_classification", 3, "multilabel"),
        ("single_label_classification", 3, "multiclass"),
        (None, 1, "regression"),
        (None, 3, "multiclass"),
    ):
        model = family.build(problem_type=problem, num_labels=columns)
        (prediction,) = parse_output(model(**batch), batch, "sequence", model.config).predictions
        assert prediction.kind == kind, problem


def test_creat_turns_the_class_token_of_every_kind_of_model() -> None:
    """The features are hidden states, one vector an example: never a loss, a logit or a padded position."""
    for head in ("choices", "span", "causal-lm", "seq2seq-t5", "seq2seq-bart", "masked-lm"):
        model, batch = model_of(head), HEADS[head].batch()
        with attached_to(model, toughen.creat()) as attached:
            step(attached, model, batch)
            features = attached.last_batches[0].passes.clean("shared").features
        rows = 6 if head == "choices" else 3
        assert features is not None, head
        assert features.shape == (rows, 32), head


@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
def test_creat_reads_the_first_token_of_encoders_and_the_last_of_decoders(name: str) -> None:
    model = FAMILIES[name].build(dropout=0.0)
    for side in ("right", "left"):
        batch = batch_for(FAMILIES[name], side)
        with attached_to(model, toughen.creat()) as attached:
            step(attached, model, batch)
            features = attached.last_batches[0].passes.clean("shared").features
        hidden = model.base_model(**{k: v for k, v in batch.items() if k != "labels"}).last_hidden_state
        ids = {"bert": 1, "llama": 2}.get(name)
        expected = hidden[:, 0] if ids is None else hidden[batch["input_ids"] == ids]
        torch.testing.assert_close(features, expected.detach())


def test_the_first_token_of_a_choice_that_is_padded_on_the_left() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    mask = torch.tensor([[[0, 1, 1], [1, 1, 1]]])  # (B, choices, L)
    assert class_token(hidden, mask, decoder=False).tolist() == [[2.0, 3.0], [6.0, 7.0]]


@pytest.mark.parametrize("method", ["creat", "r4f", "smart", "sift", "alum"])
def test_a_model_with_adapters_is_read_like_the_one_inside(method: str) -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(FAMILIES["bert"].build(dropout=0.0), peft.LoraConfig("SEQ_CLS", r=2))
    batch = batch_for(FAMILIES["bert"])
    with attached_to(model, make(method)) as attached:
        assert torch.isfinite(step(attached, model, batch))
        features = attached.last_batches[0].passes.clean("shared").features
    if method == "creat":
        hidden = model.get_base_model().bert(batch["input_ids"], batch["attention_mask"]).last_hidden_state
        torch.testing.assert_close(features, hidden[:, 0].detach())
    if method == "r4f":
        head = model.get_base_model().classifier.modules_to_save["default"].weight
        torch.testing.assert_close(torch.linalg.matrix_norm(head, 2), torch.tensor(1.0), atol=1e-3, rtol=0)


def test_a_segmentation_is_a_distribution_over_classes_for_each_pixel() -> None:
    """Its scores are (batch, classes, height, width): the last dimension is a row of the image."""
    sizes = {"hidden_sizes": [8] * 4, "num_attention_heads": [1] * 4, "depths": [1] * 4, "decoder_hidden_size": 8}
    model = hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_labels=3, **sizes))
    perturbed, clean = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    labels = torch.randint(0, 3, (2, 16, 20))
    both = [
        parse_output({"loss": None, "logits": x}, {"labels": labels}, infer_head_type(model), model.config)
        for x in (perturbed, clean)
    ]
    logs = [x.log_softmax(1) for x in (perturbed, clean)]
    expected = (logs[1].exp() * (logs[1] - logs[0])).sum(1).mean()
    torch.testing.assert_close(Divergence("kl")(*both, []), expected)


def test_every_frame_of_speech_counts() -> None:
    """Its letters are fewer than its frames, and are labels of none in particular."""
    model = type("TinyForCTC", (nn.Module,), {})()
    batch = {"labels": torch.tensor([[5, 6, 7], [8, IGNORED, IGNORED]])}
    (prediction,) = parse_output(
        {"loss": None, "logits": torch.randn(2, 9, 12)}, batch, infer_head_type(model)
    ).predictions
    assert (prediction.kind, prediction.mask) == ("multiclass", None)
