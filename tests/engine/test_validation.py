"""A model that has a method and is trained without it: told once, and never where the method is used."""

import copy
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer

import toughen
from toughen.engine.validation import WARN_AFTER_BATCHES
from toughen.errors import RobustnessWarning

from ..tiny import TOKENIZER, bert, text_batch
from ..tiny import small_bert as dropping
from ..trainers.driving import settings, texts

BATCH = text_batch()


def train(model, batches: int = WARN_AFTER_BATCHES + 3) -> None:
    for _ in range(batches):
        model(**BATCH).loss.backward()


@pytest.mark.parametrize(
    "changes",
    [{"max_steps": 12}, {"max_steps": 6, "gradient_accumulation_steps": 2, "label_smoothing_factor": 0.1}],
    ids=["usual", "accumulated"],
)
def test_a_stock_trainer_is_told_once(changes: dict[str, Any], tmp_path: Path) -> None:
    model = dropping()
    said = r"10 batches were trained .* plain training.*toughen.robust\(Trainer\)\(..., method=method\)"
    with toughen.smart().attach(model, TOKENIZER) as attached:
        trainer = Trainer(model, settings(tmp_path, **changes), train_dataset=texts())
        with pytest.warns(RobustnessWarning, match=said) as told:
            trainer.train()
        assert [each.category for each in told].count(RobustnessWarning) == 1
        assert not model._forward_hooks
        assert attached.updates == 0


@pytest.mark.parametrize("name", ["sam", "rdrop", "spectral", "sift"])
def test_so_is_a_loop(name: str) -> None:
    model = bert()
    model.bert.embeddings.requires_grad_(False)
    with toughen.make(name).attach(model, TOKENIZER), warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, WARN_AFTER_BATCHES)
        with pytest.raises(RobustnessWarning, match="plain training"):
            model(**BATCH)


@pytest.mark.filterwarnings("error::toughen.errors.RobustnessWarning")
def test_nothing_is_said_where_the_method_is_used_or_nothing_is_trained(tmp_path: Path) -> None:
    model = bert()
    with toughen.smart().attach(model, TOKENIZER) as attached:
        for _ in range(2 * WARN_AFTER_BATCHES):
            model(**BATCH)  # nothing is back-propagated
            model.eval()
            model(**BATCH).loss.backward()
            model.train()
            with torch.no_grad():
                model(**BATCH)
        train(copy.deepcopy(model))  # another model, whatever hooks it has
        attached.backward(model, BATCH)
        train(model)  # of both kinds of training this is the user's own mixture
    train(model)
    assert not model._forward_hooks
    trainer = toughen.robust(Trainer)(
        dropping(), settings(tmp_path, max_steps=12), train_dataset=texts(), method=toughen.sam()
    )
    trainer.train()


def test_signatures_of_layers_are_read_once() -> None:
    """transformers reads them in every pass; a copy of the model calls its own layers, and all goes with the method."""
    model = bert()
    layer = model.bert.encoder.layer[0]
    usual = type(layer).feed_forward_chunk
    with toughen.plain().attach(model):
        twin = copy.deepcopy(model)
        assert layer.feed_forward_chunk.__func__.__signature__ == inspect.signature(usual)
        assert torch.equal(twin(**BATCH).logits, model(**BATCH).logits)
        twin.bert.encoder.layer[0].output.dense.weight.data.zero_()
        assert not torch.equal(twin(**BATCH).logits, model(**BATCH).logits)
    assert layer.feed_forward_chunk.__func__ is usual
