"""Padding to max_length, as the authors' scripts of ASA and of the second-order head pad."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import toughen
from toughen import evaluation, tasks
from toughen.runs import load
from toughen.runs.config_io import build
from toughen.runs.errors import RunError
from toughen.tasks.batching import rows_of

from ..tiny import TOKENIZER, bert, rows

TEXTS = ["w9 w8 w7", "w20 w21 w30 w31 w40 w41", "w50", "w60 w61"]
LENGTH = 20


def collated(edges: tuple[int, ...] = ()) -> dict[str, Tensor]:
    made = rows_of(TOKENIZER(TEXTS, truncation=True, max_length=LENGTH))
    batch = tasks.collator(tasks.task("sst2"), TOKENIZER, edges=edges)(made)
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def of_the_scripts() -> dict[str, Tensor]:
    """The batch that run_sent_clas.py and run_glue.py make: the tokenizer pads each row to max_length."""
    made = TOKENIZER(TEXTS, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    return {name: made[name] for name in ("input_ids", "attention_mask")}


def asa_price(batch: dict[str, Tensor]) -> float:
    model = bert()
    with toughen.asa("original").attach(model, seed=0) as attached:
        attached.backward(model, batch)  # it needs no labels
        return float(attached.report()["budget"])


def head_logits(batch: dict[str, Tensor]) -> Tensor:
    torch.manual_seed(0)
    model = toughen.second_order(bert(), preset="original-text", q=6, k=4).double().eval()
    with torch.no_grad():
        return model(**batch).logits


def test_with_it_both_originals_have_the_numbers_of_the_authors_batch():
    padded, theirs, short = collated((LENGTH,)), of_the_scripts(), collated()
    assert all(torch.equal(padded[name], value) for name, value in theirs.items())
    assert short["input_ids"].shape[1] < LENGTH
    assert asa_price(padded) == asa_price(theirs) > 2 * asa_price(short)
    assert torch.equal(head_logits(padded), head_logits(theirs))
    assert (head_logits(short) - head_logits(theirs)).abs().max() > 1e-3


def test_what_the_run_trained_with_is_what_scores_and_predicts(start, little, no_page):
    run = start(
        "plain",
        head={"name": "second-order", "preset": "original-text", "q": 6, "k": 4},
        data={**little.data, "max_length": 24, "pad_to_max_length": True},
    )
    texts = [row["text"] for row in rows(20, seed=1)]
    written = (run.path / "seeds/1/predictions/validation.tsv").read_text().splitlines()[1:]
    padded = load(run.path)
    answers = [padded(text) for text in texts]  # one at a time, and as long as in a batch
    assert [each.label for each in answers] == [line.split("\t")[1] for line in written]
    pairs = zip(answers, replace(padded, pad_to_max_length=False)(texts), strict=True)
    assert max(abs(long.probabilities["pos"] - short.probabilities["pos"]) for long, short in pairs) > 1e-4
    widths: set[int] = set()
    watch = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: widths.add(given[0].shape[1]) if isinstance(module, torch.nn.Embedding) else None
    )
    evaluation.evaluate(run.path, write=False, samples=10, attack="characters", limit=4)
    watch.remove()
    assert max(widths) == 24
    assert not widths & set(range(2, 24))  # positions have a width of their own: 1 and 24


def test_fast_steps_would_take_it_out():
    with pytest.raises(RunError, match=r"data\.pad_to_max_length with --fast"):
        build({"model": "m", "task": "rte", "fast": True, "data": {"pad_to_max_length": True}})
