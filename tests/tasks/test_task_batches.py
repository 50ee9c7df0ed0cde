"""Token ids, padding, samplers: what reaches the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toughen import tasks

from .task_samples import HEADS, TEXTS, rows_of, write_jsonl


@pytest.fixture
def ready(tiny_data, tokenizer, tmp_path):
    return lambda head, **options: tasks.prepare(tiny_data(head), tokenizer, cache_dir=tmp_path / "tokens", **options)


def test_ids_are_the_tokenizers_own(ready, tokenizer):
    found = ready("pair").train
    expected = tokenizer(TEXTS, list(reversed(TEXTS)))
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert found[name][:] == expected[name]
    assert set(found.column_names) == {"input_ids", "attention_mask", "token_type_ids", "labels"}


def test_choices_are_completed_and_nested(ready, tokenizer):
    row = ready("choices").train[0]
    expected = tokenizer([TEXTS[0]] * 3, ["it is good", "it is bad and dull", "it is the f"])
    assert row["input_ids"] == expected["input_ids"]
    assert row["token_type_ids"] == expected["token_type_ids"]


def test_tags_stand_on_first_pieces(ready, tokenizer):
    data = ready("tokens")
    row, raw = data.train[8], rows_of("tokens")[8]
    pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert len(pieces) > 5, "the first word must be cut into pieces"
    tags = [label for label in row["labels"] if label != -100]
    assert [data.task.labels[tag] for tag in tags] == raw["tags"]
    assert row["labels"][0] == row["labels"][-1] == -100
    for piece, label in zip(pieces, row["labels"], strict=True):
        assert (label == -100) == (piece.startswith("##") or piece in ("[CLS]", "[SEP]"))


def test_long_rows_are_cut_and_reported(ready, tiny_data, tokenizer):
    assert max(tasks.lengths(ready("classes", max_length=6).train)) == 6
    report = tiny_data("classes").report(tokenizer, 6)
    whole = [len(ids) for ids in tokenizer(TEXTS)["input_ids"]]
    assert report.truncated["train"] == np.mean(np.array(whole) > 6)
    assert "tokens: raise max_length (--data.max_length)" in str(report)
    report = tiny_data("classes").report(tokenizer, 6, longest=6)
    assert "cut at 6 tokens, and the model reads no more" in str(report)
    assert "raise" not in str(report)


@pytest.mark.parametrize("head", ["classes", "multilabel"])
def test_withheld_labels_are_left_out(tmp_path, tokenizer, head):
    file = write_jsonl(tmp_path / "x.jsonl", rows_of(head))
    bare = write_jsonl(tmp_path / "test.jsonl", [{"text": row["text"]} for row in rows_of(head)])
    data = tasks.load(train_file=file, test_file=bare, cache_dir=tmp_path)
    assert "labels" not in tasks.prepare(data, tokenizer, cache_dir=tmp_path).test.column_names


def test_a_second_time_comes_from_the_cache(tiny_data, tokenizer, tmp_path, monkeypatch):
    data = tiny_data("classes")
    settings = {"cache_dir": tmp_path / "tokens"}
    first = tasks.prepare(data, tokenizer, **settings).train
    assert first.cache_files[0]["filename"].startswith(str(tmp_path / "tokens"))
    tokenizer(TEXTS, padding=True, truncation=True, max_length=4)  # leaves its settings in the tokenizer
    monkeypatch.setattr("toughen.tasks.tokenising.Tokenise.__call__", lambda *_: pytest.fail("tokenised again"))
    again = tasks.prepare(data, tokenizer, **settings).train
    assert again.cache_files == first.cache_files
    assert again[:] == first[:]
    with pytest.raises(pytest.fail.Exception, match="tokenised again"):
        tasks.prepare(data, tokenizer, max_length=5, **settings)
    monkeypatch.setattr(tokenizer, "truncation_side", "left")
    with pytest.raises(pytest.fail.Exception, match="tokenised again"):
        tasks.prepare(data, tokenizer, **settings)


def test_several_processes_give_the_same(tmp_path, tokenizer):
    rows = [{"text": f"{TEXTS[n % 8]} {n}", "label": n % 2} for n in range(40)]
    data = tasks.load(train_file=write_jsonl(tmp_path / "x.jsonl", rows), cache_dir=tmp_path / "c")
    one = tasks.prepare(data, tokenizer, batch_size=10, cache_dir=tmp_path / "a")
    two = tasks.prepare(data, tokenizer, batch_size=10, num_proc=2, cache_dir=tmp_path / "b")
    assert one.train[:] == two.train[:]


# Left padding is compared for tokens only: BERT's other heads read the first position, which is then padding.
@pytest.mark.parametrize(("head", "side"), [*((head, "right") for head in HEADS), ("tokens", "left")])
def test_padding_changes_nothing(ready, tokenizer, tiny_model, head, side):
    data = ready(head)
    collate = replace(tasks.collator(data.task, tokenizer, pad_to_multiple_of=8), padding_side=side)
    model = tiny_model(data.task, tokenizer).double()
    rows = list(data.train)
    batch = collate(rows)
    labels = batch.pop("labels")
    assert batch["input_ids"].shape[-1] % 8 == 0
    places = {} if side == "right" else {"position_ids": (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)}
    with torch.no_grad():
        padded = model(**batch, **places).logits
        alone = [model(**_unpadded(row, batch, head)).logits for row in rows]
    for row, logits in enumerate(alone):
        found = padded[row][batch["attention_mask"][row].bool()] if head == "tokens" else padded[row]
        torch.testing.assert_close(found.reshape(logits[0].shape), logits[0])
    score = tasks.metrics(data.task)
    if head == "tokens":
        single = score([logits[0].argmax(-1).tolist() for logits in alone], [row["labels"] for row in rows])
    else:
        single = score(torch.cat(alone).numpy(), labels.numpy())
    assert score(padded.numpy(), labels.numpy()) == pytest.approx(single)


def _unpadded(row, names, head):
    """One row as it is; its choices are padded to one another, the least a multiple-choice model can do with."""
    if head != "choices":
        return {name: torch.tensor([row[name]]) for name in names}
    longest = max(map(len, row["input_ids"]))
    return {name: torch.tensor([[ids + [0] * (longest - len(ids)) for ids in row[name]]]) for name in names}


def test_collated_types_and_fill(ready, tokenizer):
    data = ready("tokens")
    batch = tasks.collator(data.task, tokenizer)(list(data.train))
    assert batch["labels"].shape == batch["input_ids"].shape
    assert (batch["labels"][batch["attention_mask"] == 0] == -100).all()
    assert (batch["input_ids"][batch["attention_mask"] == 0] == tokenizer.pad_token_id).all()
    assert batch["input_ids"].dtype == torch.int64
    regression = ready("regression")
    assert tasks.collator(regression.task, tokenizer)([regression.train[0]])["labels"].dtype == torch.float32


def test_bucket_edges_decide_the_padded_length(tokenizer, ready):
    collate = tasks.collator(ready("classes").task, tokenizer, edges=(16, 8, 32))
    assert [collate.length(n) for n in (1, 8, 9, 17, 32, 40)] == [8, 8, 16, 32, 32, 40]


def test_lengths_follow_a_selection(ready):
    for head in ("classes", "choices"):
        split = ready(head).train
        found = [max(map(len, ids)) if head == "choices" else len(ids) for ids in split["input_ids"]]
        assert tasks.lengths(split).tolist() == found
        assert tasks.lengths(split.select([5, 0, 2])).tolist() == [found[5], found[0], found[2]]


SIZES = st.lists(st.integers(1, 64), min_size=1, max_size=200)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, batch=st.integers(1, 9), world=st.integers(1, 3), epoch=st.integers(0, 3), drop=st.booleans())
@pytest.mark.parametrize("kind", ["grouped", "bucketed"])
def test_samplers_cover_the_rows_once_and_in_step(kind, sizes, batch, world, epoch, drop):
    def make(rank, seed=3):
        options = {"seed": seed, "rank": rank, "world": world, "drop_last": drop}
        if kind == "grouped":
            return tasks.LengthGrouped(sizes, batch, stretch=4, **options)
        return tasks.LengthBucketed(sizes, batch, (16, 32, 64), **options)

    ranks = [make(rank) for rank in range(world)]
    for sampler in ranks:
        sampler.set_epoch(epoch)
    taken = [list(sampler) for sampler in ranks]
    assert len({len(batches) for batches in taken}) == 1
    assert len(taken[0]) == len(ranks[0])
    assert taken[0] == list(ranks[0]), "the same epoch, the same batches"
    rows = [row for batches in taken for part in batches for row in part]
    if drop:
        assert len(set(rows)) == len(rows)
        assert all(len(part) == batch for batches in taken for part in batches)
    else:
        assert set(rows) == set(range(len(sizes)))
    plan = [row for part in ranks[0].plan() for row in part]
    assert len(set(plan)) == len(plan)


def test_samplers_change_with_epoch_and_seed():
    sizes = list(range(1, 65))
    sampler = tasks.LengthGrouped(sizes, 4)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(tasks.LengthGrouped(sizes, 4, seed=1)) != first


def test_grouping_saves_padding_and_buckets_hold_their_edges():
    sizes = np.random.default_rng(0).integers(1, 65, size=1000)

    def padded(batches):
        return sum(len(rows) * sizes[rows].max() for rows in batches)

    plain = [list(range(start, min(start + 8, 1000))) for start in range(0, 1000, 8)]
    assert padded(tasks.LengthGrouped(sizes, 8)) < 0.7 * padded(plain)
    assert sizes[next(iter(tasks.LengthGrouped(sizes, 8)))].max() == 64, "the longest comes first"
    edges = np.array((16, 32, 64))
    batches = list(tasks.LengthBucketed(sizes, 8, edges))
    assert all(len(rows) == 8 for rows in batches[:-1])
    mixed = sum(len(set(np.searchsorted(edges, sizes[rows]))) > 1 for rows in batches)
    assert mixed <= 2, "only what is left over moves up"
    together = tasks.LengthBucketed(sizes, 8, edges, world=4)
    for start in range(0, len(together.plan()) - 4, 4):
        step = together.plan()[start : start + 4]
        assert len({int(np.searchsorted(edges, sizes[rows].max())) for rows in step}) == 1, "processes pad alike"
    with pytest.raises(ValueError, match=r"64 tokens.*add one"):
        tasks.LengthBucketed(sizes, 8, (16, 32))


def test_byte_level_words_keep_the_space_before_them(tiny_data, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(vocab_size=120, special_tokens=["<pad>"]))
    roberta = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", model_max_length=64)
    found = tasks.prepare(tiny_data("tokens"), roberta, cache_dir=tmp_path).train
    assert found["input_ids"][:8] == roberta(TEXTS)["input_ids"]
    assert sum(label != -100 for label in found[0]["labels"]) == len(TEXTS[0].split())


def test_words_keep_a_space_that_is_written_by_a_normaliser(tiny_data, tmp_path):
    """Gemma's way: every space becomes a character of the piece behind it, and no rule names it."""
    from tokenizers import Tokenizer, models, normalizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Replace(" ", "▁")
    core.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(vocab_size=120, special_tokens=["<pad>"]))
    gemma = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", model_max_length=64)
    found = tasks.prepare(tiny_data("tokens"), gemma, cache_dir=tmp_path).train
    written = ["".join(gemma.convert_ids_to_tokens(ids)) for ids in found["input_ids"][:8]]
    assert written == [text.replace(" ", "▁") for text in TEXTS]
    report = tiny_data("tokens").report(gemma, 12)
    assert report.truncated["train"] == np.mean([len(ids) > 12 for ids in found["input_ids"]])


def test_settings_of_a_tokenizer_in_python_are_part_of_its_name(tiny_data, tmp_path):
    from transformers import ByT5Tokenizer

    data, found = tiny_data("classes"), []

    class Upper(ByT5Tokenizer):
        def _tokenize(self, text):
            return super()._tokenize(text.upper() if self.init_kwargs["upper"] else text)

    for upper in (False, True):
        slow = Upper(upper=upper, model_max_length=64)
        found.append(slow.decode(tasks.prepare(data, slow, cache_dir=tmp_path).train["input_ids"][0]))
    assert found == [f"{TEXTS[0]}</s>", f"{TEXTS[0].upper()}</s>"]


def test_training_a_step_of_every_head(ready, tokenizer, tiny_model):
    for head in HEADS:
        data = ready(head)
        model = tiny_model(data.task, tokenizer).train()
        model(**tasks.collator(data.task, tokenizer)(list(data.train))).loss.backward()
        assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters()), head
