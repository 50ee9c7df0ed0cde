"""Views of batches: what goes with the ids, every kind of head, and what is refused."""

from types import SimpleNamespace

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForMultipleChoice,
    AutoModelForTokenClassification,
    BertForMaskedLM,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)

import toughen
from toughen.engine.text_views import split_views, stack_texts
from toughen.errors import DataError, MethodError, RobustnessWarning, SiteError, StepError

from ..invariant.table import other_tokens
from ..tiny import LETTERS, NO_DROPOUT, SMALL, bert, t5, text_batch


def words(rows=3, length=10, seed=1):
    """A batch of words of the tokenizer LETTERS."""
    batch = text_batch(rows, length, seed)
    return {**batch, "input_ids": batch["input_ids"].where(batch["input_ids"] < 5, 25 + batch["input_ids"] % 23)}


def view_of(batch, model=None, method=None, **settings):
    """The first view of a batch, without the counts."""
    method = method or toughen.typos(rate=1.0, **settings)
    with method.attach(model or bert(), LETTERS, seed=3) as attached:
        clean, views = split_views(attached.add_views(batch))
    assert clean.keys() == batch.keys()
    assert views[0].pop("counts")[:, 1].sum() > 0
    return {name: value[:, 0] for name, value in views[0].items()}


def tokens(**changes):
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT, "max_position_embeddings": 40, **changes})
    return AutoModelForTokenClassification.from_config(config).double().train()


def test_masks_types_and_positions_go_with_their_tokens():
    batch = words()
    ids, mask = batch["input_ids"], batch["attention_mask"]
    batch |= {"token_type_ids": (torch.arange(10) > 4) * mask, "position_ids": 2 + torch.arange(10).expand(3, -1)}
    batch["special_tokens_mask"] = (ids < 5).long()
    view = view_of(batch)
    assert set(view) == set(batch) - {"labels"}
    real = view["attention_mask"].bool()
    assert torch.equal(real.sum(1).gt(0), torch.ones(3).bool())
    assert (view["input_ids"][~real] == 0).all()
    assert torch.equal(view["special_tokens_mask"].bool(), view["input_ids"].lt(3))  # [UNK] is a word
    for row in range(3):
        length = int(real[row].sum())
        assert view["position_ids"][row, :length].tolist() == list(range(2, 2 + length))
        types = view["token_type_ids"][row, :length]
        assert types.diff().ge(0).all()  # first text, then second
        assert types[-1] == batch["token_type_ids"][row, mask[row].sum() - 1]


def test_padding_stays_on_its_side():
    batch = words()
    left = {name: value.flip(1) if value.dim() > 1 else value for name, value in batch.items()}
    view = view_of(left)
    assert view["attention_mask"][:, -1].all()
    assert not view["attention_mask"][:, 0].all()
    right = view_of(batch)
    assert right["attention_mask"][:, 0].all()


def test_a_batch_without_a_mask_gets_one():
    batch = {name: value for name, value in words().items() if name != "attention_mask"}
    view = view_of(batch)
    assert torch.equal(view["attention_mask"].bool(), view["input_ids"] != 0)


@pytest.mark.parametrize("number", [1, 3])
def test_every_choice_is_edited_and_a_shared_context_alike(number):
    one, two = words(), words(seed=2)
    context = one["input_ids"][:, :4]
    rows = [torch.cat([context, other["input_ids"][:, 4:]], 1) for other in (one, two)]
    for row in rows:
        row[:, 4] = 2  # the end of the context
    ids = torch.stack(rows, 1)
    batch = {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": torch.tensor([0, 1, 1])}
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT})
    model = AutoModelForMultipleChoice.from_config(config).double().train()
    with toughen.typos(rate=1.0, worst_of=number).attach(model, LETTERS, seed=3) as attached:
        assert attached.backward(model, batch).isfinite()
        views = split_views(attached.add_views(batch))[1][0]
    assert views["input_ids"].shape[:3] == (3, number, 2)
    assert views["counts"].shape == (3, 2)
    for row in views["input_ids"][:, 0]:
        first, second = (choice[: choice.tolist().index(2)].tolist() for choice in row)
        assert first == second
    assert not torch.equal(*views["input_ids"][0, 0])


def test_tags_follow_their_words_and_are_compared_there():
    model, batch = tokens(), words()
    batch["labels"] = torch.where(batch["input_ids"] > 4, batch["input_ids"] % 3, -100)
    view = view_of(batch, model)
    places = view.pop("places")
    assert view["labels"].shape == view["input_ids"].shape
    for row, positions in enumerate(places):
        for clean, there in enumerate(positions.tolist()):
            if there >= 0:
                assert view["labels"][row, there] == batch["labels"][row, clean]
        assert (positions >= 0).sum() == batch["attention_mask"][row].sum()  # nothing is lost
        labelled = view["labels"][row].ne(-100).sum()
        assert labelled == batch["labels"][row].ne(-100).sum()
    clean, other = model(**batch), model(**view)
    moved = other.logits.gather(1, places.clamp(min=0).unsqueeze(-1).expand(-1, -1, 3))
    counted = batch["labels"].ne(-100)
    p, q = clean.logits.detach().log_softmax(-1)[counted], moved.log_softmax(-1)[counted]
    kl = (p.exp() * (p - q)).sum(-1).mean()
    with toughen.typos(rate=1.0).attach(model, LETTERS, seed=3) as attached:
        loss = attached.backward(model, batch)
        torch.testing.assert_close(attached.report()["term"], kl.detach())
        torch.testing.assert_close(loss, (clean.loss + kl).detach())


@pytest.mark.parametrize("other", ["smart", "freelb"])
def test_tags_in_a_sum_on_both_texts(other):
    model, batch = tokens(), words()
    batch["labels"] = torch.where(batch["input_ids"] > 4, batch["input_ids"] % 3, -100)
    method = toughen.typos(rate=1.0, on="both", worst_of=2) + toughen.make(other)
    with method.attach(model, LETTERS, seed=3) as attached:
        assert attached.backward(model, batch).isfinite()
        smart = next(step for step in attached.last_batches if step.perturbation.at)
        assert len(smart.perturbation.at[0]) == 6
        assert smart.metrics["term"] > 0
        assert attached.probe()


@pytest.mark.parametrize(("on", "rows"), [("clean", 3), ("view", 3), ("both", 6)])
def test_other_words_replace_those_of_the_texts_that_a_sum_names(on, rows):
    model, batch = bert(), words()
    method = toughen.typos(rate=1.0, on=on) + toughen.words(share=1.0, candidates=other_tokens)
    with method.attach(model, LETTERS, seed=3) as attached:
        view = split_views(attached.add_views(batch))[1][0]["input_ids"][:, 0]
        assert attached.backward(model, batch).isfinite()
        step = next(step for step in attached.last_batches if step.perturbation.at)
        moved = step.perturbation.at[0].ne(0).any(-1)
    texts = {"clean": batch["input_ids"], "view": view}.get(on)
    assert len(moved) == rows
    assert moved.any()
    if texts is not None:
        assert moved.shape == texts.shape
        assert not moved[texts < 5].any()  # special tokens and padding stay


def test_texts_pushed_out_of_the_model_s_length_lose_their_last_words():
    model, batch = tokens(max_position_embeddings=10), words()
    batch["labels"] = torch.where(batch["input_ids"] > 4, batch["input_ids"] % 3, -100)
    view = view_of(batch, model)
    assert view["input_ids"].shape[1] <= 10
    assert (view["input_ids"] == 2).sum(1).eq(1).all()
    assert (view["places"] >= 0).any(1).all()
    with toughen.typos(rate=1.0).attach(model, LETTERS, seed=3) as attached:
        assert attached.backward(model, batch).isfinite()


@pytest.mark.parametrize(
    ("labels", "settings"),
    [
        (torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), {"num_labels": 1}),
        (torch.tensor([[1.0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.float64), {}),
    ],
    ids=["regression", "multilabel"],
)
def test_the_comparison_is_the_heads_own(labels, settings):
    model, batch = bert(**settings), {**words(), "labels": labels}
    view = view_of(batch, model)
    clean, other = model(**batch).logits.detach(), model(**{**batch, **view}).logits
    if settings:
        expected = (clean - other).square().mean()
    else:
        p, q = torch.distributions.Bernoulli(logits=clean), torch.distributions.Bernoulli(logits=other)
        expected = torch.distributions.kl_divergence(p, q).mean()
    with toughen.typos(rate=1.0, worst_of=1).attach(model, LETTERS, seed=3) as attached:
        attached.backward(model, batch)
        torch.testing.assert_close(attached.report()["term"], expected.detach())


def test_an_encoder_decoder_reads_edited_text_and_writes_the_same():
    model, batch = t5(), words()
    batch["labels"] = torch.tensor([[5, 6, 7, 2], [8, 9, 2, -100], [10, 11, 12, 2]])
    assert set(view_of(batch, model)) == {"input_ids", "attention_mask"}
    with toughen.typos(rate=1.0).attach(model, LETTERS, seed=3) as attached:
        assert attached.backward(model, batch).isfinite()


def test_views_depend_on_the_seed_the_update_and_the_text_alone():
    batch = words()
    with toughen.typos(rate=1.0).attach(bert(), LETTERS, seed=3) as attached:
        first = attached.add_views(batch)
        again, shuffled = attached.add_views(batch), attached.add_views({k: v.flip(0) for k, v in batch.items()})
        attached.updates = 1
        later = attached.add_views(batch)
        assert attached.add_views(first) == first  # what is there stays
    name = "toughen_view0_input_ids"
    assert torch.equal(first[name], again[name])
    assert torch.equal(first[name], shuffled[name].flip(0))
    assert later[name].shape != first[name].shape or not torch.equal(later[name], first[name])


def test_both_texts_in_one_batch_are_padded_to_one_length():
    clean = words(length=6)
    view = {"input_ids": torch.full((3, 9), 7), "attention_mask": torch.ones(3, 9).long()}
    for side in ("left", "right"):
        both = stack_texts(clean, view, 0, side)
        assert both["input_ids"].shape == both["attention_mask"].shape == (6, 9)
        part = slice(3, None) if side == "left" else slice(6)
        assert torch.equal(both["input_ids"][:3, part], clean["input_ids"])
        assert both["attention_mask"][:3].sum() == clean["attention_mask"].sum()
        assert torch.equal(both["labels"], clean["labels"].repeat(2))


def test_how_many_words_were_edited_is_told():
    batch = words()
    with toughen.typos(rate=1.0).attach(bert(), LETTERS, seed=3) as attached:
        attached.backward(attached.model, batch)
        report = attached.report()
    assert report["words"] == batch["input_ids"].gt(4).sum()
    assert 0 < report["words_edited"] <= report["words"]


def test_a_warning_where_no_word_is_ever_edited(monkeypatch):
    monkeypatch.setattr("toughen.engine.diagnostics.WINDOW", 3)
    model, batch = bert(), words()
    batch["input_ids"][:] = 3  # [UNK]
    with toughen.typos(rate=1.0).attach(model, LETTERS, seed=3) as attached:
        for _ in range(4):
            attached.backward(model, batch)
        with pytest.warns(RobustnessWarning, match="None of 72 words was edited in 3 updates"):
            attached.backward(model, batch)
        attached.backward(model, batch)  # once is enough


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda: toughen.typos(rate=0.0), "rate=0"),
        (lambda: toughen.typos(worst_of=0), "worst_of=0"),
        (lambda: toughen.typos(learn="labels"), "learn='labels' is not known"),
        (lambda: toughen.typos(on="all"), "on='all' is not known"),
        (lambda: toughen.views(families=["typo"]), "no 'typo'.*'typos'"),
        (lambda: toughen.views(families=[]), "name at least one of typos"),
        (lambda: toughen.typos(on="view") + toughen.casing(on="both"), "Only one method of a sum may set on="),
    ],
)
def test_settings_that_cannot_be(method, message):
    with pytest.raises(MethodError, match=message):
        method()


def test_what_is_missing_or_has_no_text_is_said_in_one_line(tmp_path):
    def refuse(error, match, model, tokenizer=LETTERS, method=None):
        with pytest.raises(error, match=match) as caught:
            (method or toughen.typos()).attach(model, tokenizer)
        assert "\n" not in str(caught.value)

    refuse(MethodError, r"needs the tokenizer: method\.attach\(model, tokenizer\)", bert(), None)
    refuse(MethodError, "is no fast tokenizer", bert(), SimpleNamespace(all_special_ids=[0]))
    masked = BertForMaskedLM(bert().config)
    refuse(SiteError, "predicts tokens or positions of its own text", masked)
    refuse(SiteError, "reads 'pixel_values'", ViTForImageClassification(ViTConfig(hidden_size=12, num_hidden_layers=1)))
    file = tmp_path / "synonyms.json"
    file.write_text('{"xyz": ["zyx"]}')
    refuse(MethodError, "has none of its words", bert(), method=toughen.synonyms(synonyms=str(file)))
    refuse(DataError, "does not exist", bert(), method=toughen.synonyms(synonyms="nowhere.json"))
    with toughen.typos().attach(bert(), SimpleNamespace(tokenizer=LETTERS)) as attached:  # a processor
        with pytest.raises(StepError, match="made from 'input_ids'"):
            attached.backward(attached.model, {"inputs_embeds": torch.zeros(1, 2, 32)})
        batch = words()
        packed = {**batch, "attention_mask": torch.ones(3, 1, 10, 10)}
        with pytest.raises(StepError, match="packed into a row"):
            attached.backward(attached.model, packed)
    assert isinstance(LETTERS, PreTrainedTokenizerFast)


def test_a_text_of_one_word_and_an_empty_one():
    model = bert()
    batch = {"input_ids": torch.tensor([[1, 30, 2], [1, 2, 0], [0, 0, 0]]), "labels": torch.tensor([0, 1, 2])}
    batch["attention_mask"] = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 0, 0]])
    with toughen.typos(rate=1.0, worst_of=2).attach(model, LETTERS, seed=3) as attached:
        assert attached.backward(model, batch).isfinite()
        assert attached.report()["words"] == 2  # of two views
