"""Recipes on a tiny model with real rows, where they are at hand: the data, the head and the method fit together."""

import os
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

import toughen
from toughen import recipes, tasks

from .test_recipes import made, tiny

SMALL = ("rte", "cola", "mrpc", "stsb", "wnli", "dream", "wnut17")  # sets that are read in a moment
NAMES = [name for name in recipes.available() if recipes.config(name)["task"] in SMALL]


def words() -> PreTrainedTokenizerFast:
    """64 ids, most of them for the commonest words; the rest is unknown."""
    text = "the a of to in and is it that was for on as he with . , ? ' s t i you she what will do m w not be at"
    table = {word: number for number, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *text.split()])}
    inner = Tokenizer(WordLevel(table, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    special = [("[CLS]", 1), ("[SEP]", 2)]
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", special)
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=48, model_input_names=inputs, **names)


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """Task -> a batch of its own rows, read once."""
    folder = Path(os.environ.get("TOUGHEN_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no real data here: set TOUGHEN_DATA to its folder")
    tokenizer, cache, found = words(), tmp_path_factory.mktemp("cache"), {}

    def batch(name: str):
        if name not in found:
            data = tasks.load(name, dir=folder, limit=6, cache_dir=cache)
            rows = tasks.prepare(data, tokenizer, 48, cache_dir=cache).train
            found[name] = tasks.collator(data.task, tokenizer)([rows[i] for i in range(6)])
        return found[name]

    return batch


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_learns_from_real_rows(name, batches):
    config = recipes.config(name)
    if config["method"]["name"] == "asa" and "asa" not in toughen.list_methods():
        pytest.skip("the method asa is not in this version")
    batch = batches(config["task"])
    model, _ = tiny(config)
    attached = made(config["method"]).attach(model, total_steps=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(2):
        losses.append(attached.backward(model, batch))
        optimizer.step()
        optimizer.zero_grad()
    attached.detach()
    assert torch.isfinite(torch.stack(losses)).all()
