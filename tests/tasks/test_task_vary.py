"""Smaller, noisier, more uneven training data by seed; and what the report says of data."""

import numpy as np
import pytest

from toughen import tasks

from .task_samples import rows_of, write_jsonl


@pytest.fixture
def file(tmp_path):
    rows = [{"text": f"row {n}", "label": "abc"[n % 3]} for n in range(300)]
    return write_jsonl(tmp_path / "own.jsonl", rows)


@pytest.fixture
def load(file):
    return lambda **options: tasks.load(train_file=file, validation_file=file, cache_dir=file.parent / "c", **options)


def test_limit(load):
    one, two, other = load(limit=50), load(limit=50), load(limit=50, seed=1)
    assert len(one.train) == len(one.validation) == 50
    assert one.train[:] == two.train[:] != other.train[:]
    assert len(load(limit=1000).train) == 300
    with pytest.raises(tasks.DataError, match="leaves no rows"):
        load(limit=0)
    assert len(list(load(limit=5, streaming=True).train)) == 5


def test_few_shot(load):
    data = load(few_shot=7)
    assert np.bincount(data.train["label"][:]).tolist() == [7, 7, 7]
    assert len(data.validation) == 300
    assert data.train[:] == load(few_shot=7).train[:] != load(few_shot=7, seed=1).train[:]
    with pytest.raises(tasks.DataError, match="has only 100 rows"):
        load(few_shot=101)


def test_label_noise(load):
    clean, noisy = load(), load(label_noise=0.2)
    changed = np.array(clean.train["label"][:]) != np.array(noisy.train["label"][:])
    assert changed.sum() == 60
    assert clean.train["text"][:] == noisy.train["text"][:]
    assert noisy.train.features == clean.train.features
    assert clean.validation[:] == noisy.validation[:]
    assert (
        noisy.train["label"][:]
        == load(label_noise=0.2).train["label"][:]
        != load(label_noise=0.2, seed=1).train["label"][:]
    )
    with pytest.raises(tasks.DataError, match="from 0 to 1"):
        load(label_noise=1.5)


def test_imbalance(load):
    data = load(imbalance=0.01)
    assert sorted(np.bincount(data.train["label"][:]).tolist()) == [1, 10, 100]
    assert data.train[:] == load(imbalance=0.01).train[:]
    with pytest.raises(tasks.DataError, match="smallest to largest"):
        load(imbalance=0)


def test_rows_held_out_leave_every_class_a_row_to_learn_from(tmp_path):
    rows = [{"text": f"row {n}", "label": "b" if n == 9 else "a"} for n in range(10)]
    file = write_jsonl(tmp_path / "own.jsonl", rows)
    data = tasks.load(train_file=file, validation_share=0.9, cache_dir=tmp_path / "c")
    assert set(data.train["label"][:]) == {0, 1}


def test_all_together_and_noted(load):
    data = load(imbalance=0.5, few_shot=20, limit=30, label_noise=0.1)
    assert len(data.train) == 30
    assert len([note for note in data.notes if "(seed 0)" in note]) == 4


def test_not_for_regression(tmp_path):
    path = write_jsonl(tmp_path / "own.jsonl", rows_of("regression"))
    with pytest.raises(tasks.DataError, match="one class a row"):
        tasks.load(train_file=path, cache_dir=tmp_path, label_noise=0.5)


def test_the_report_is_readable(tmp_path, tokenizer):
    train = [{"text": "a b", "label": "x"}] * 3 + [{"text": "b c", "label": "y"}, {"text": " ", "label": "y"}]
    files = {
        "train_file": write_jsonl(tmp_path / "train.jsonl", train),
        "validation_file": write_jsonl(
            tmp_path / "dev.jsonl", [{"text": "a b", "label": "x"}, {"text": "new", "label": "x"}]
        ),
    }
    data = tasks.load(**files, cache_dir=tmp_path)
    report = data.report(tokenizer, 64)
    assert report.rows == {"train": 5, "validation": 2}
    assert report.balance["train"] == {"x": 3, "y": 2}
    assert report.empty == {"train": 1, "validation": 0}
    assert report.repeated == {"train": 2, "validation": 0}
    assert report.shared == {("train", "validation"): 1}
    assert report.truncated == {"train": 0, "validation": 0}
    length = len(tokenizer("a b")["input_ids"])
    assert data.report(tokenizer, length).truncated["train"] == 0  # what fits is not cut
    assert data.report(tokenizer, length - 1).truncated["train"] == 0.8
    text = str(report)
    for said in (
        "train 5 rows, validation 2 rows",
        "train labels: x 60.0%, y 40.0%",
        "repeat within a split: train 2",
        "cut at 64 tokens: train 0.0%",
        "train: train.jsonl: UTF-8",
        "! train: 1 row with an empty text",
        "! 1 row of validation also in train",
        "! validation: no row of y",
    ):
        assert said in text, text


@pytest.mark.parametrize("head", ["pair", "regression", "multilabel", "tokens", "choices"])
def test_every_head_has_a_report(tiny_data, tokenizer, head):
    report = tiny_data(head).report(tokenizer, 16)
    assert report.shared[("train", "validation")] == report.rows["train"]
    assert str(report)
