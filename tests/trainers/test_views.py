"""Views of texts under the Trainer: made by the loader, the same however many workers it has."""

import copy
import pickle

import pytest
import torch
from transformers import Trainer

import toughen
from toughen.engine.text_views import ViewMaker, split_views
from toughen.errors import MethodError
from toughen.trainers.view_collator import ViewCollator

from ..tiny import LETTERS
from ..tiny import small_bert as bert
from .driving import assert_equal, collated, settings, texts, weights


def trained(folder, method=None, resume=None, **changes):
    trainer = toughen.robust(Trainer)(
        bert(0.0),  # dropout draws from the stream that a loader seeds its workers from
        settings(folder, max_steps=-1, num_train_epochs=2, **changes),
        train_dataset=texts(16),
        data_collator=collated,
        method=method or toughen.typos(rate=1.0),
        processing_class=LETTERS,
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.mark.parametrize("workers", [{}, {"dataloader_persistent_workers": True}], ids=["new each epoch", "persistent"])
def test_workers_make_the_views_that_the_main_process_would_make(tmp_path, workers, monkeypatch):
    one = trained(tmp_path)
    assert one.state.log_history[0]["robust/words_edited"] > 0
    make, here = ViewMaker.__call__, []
    monkeypatch.setattr(ViewMaker, "__call__", lambda maker, *given: here.append(1) or make(maker, *given))
    other = trained(tmp_path, dataloader_num_workers=1, **workers)
    assert not here  # all were made elsewhere
    assert int(other._epochs.views._epoch) == 1
    assert_equal(weights(one.model), weights(other.model))


def test_a_resumed_training_reads_the_same_views(tmp_path):
    whole = trained(tmp_path / "whole", save_strategy="steps", save_steps=3)
    resumed = trained(tmp_path / "resumed", resume=str(tmp_path / "whole" / "checkpoint-3"))
    assert_equal(weights(whole.model), weights(resumed.model))


def test_each_epoch_draws_its_own_views():
    with toughen.views(rate=1.0, worst_of=2).attach(bert(), LETTERS, seed=3) as attached:
        collate = ViewCollator(collated, attached)
        rows = texts(4)
        first, again = collate(rows), collate(rows)
        collate.set_epoch(1)
        second = copy.deepcopy(collate)(rows)
        sent = pickle.loads(pickle.dumps(collate.makers))  # to a worker that is not forked
        collated.valid_label_columns = ["labels"]  # as that of sentence-transformers, whose Trainer reads it
        assert copy.copy(collate).valid_label_columns == ["labels"]
        del collated.valid_label_columns
        assert attached.backward(attached.model, first).isfinite()
    name = "toughen_view0_input_ids"
    assert torch.equal(first[name], again[name])
    assert first[name].shape != second[name].shape or not torch.equal(first[name], second[name])
    there = sent[0](collated(rows), "epoch 1")
    assert torch.equal(there[name], second[name])
    assert split_views(first)[0].keys() == collated(rows).keys()


def test_without_a_tokenizer_the_trainer_says_what_to_give(tmp_path):
    with pytest.raises(MethodError, match=r"robust\(Trainer\)\(..., processing_class=tokenizer\)"):
        toughen.robust(Trainer)(bert(), settings(tmp_path), train_dataset=texts(4), method=toughen.typos())
