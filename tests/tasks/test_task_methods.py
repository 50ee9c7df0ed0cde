"""Every method trains on every kind of task, from a file of rows to an update."""

import pytest
import torch

import toughen
from toughen import tasks

from ..tiny import LIKE_TYPOS, make
from .task_samples import HEADS


@pytest.fixture(params=HEADS)
def prepared(request, tiny_data, tokenizer, tmp_path):
    data = tasks.prepare(tiny_data(request.param), tokenizer, cache_dir=tmp_path / "tokenised")
    collate = tasks.collator(data.task, tokenizer)
    rows = [dict(row) for row in data.train]
    return data.task, collate(rows[:4])


@torch.no_grad()
def loss_of(model, batch):
    model.eval()
    loss = float(model(**batch).loss)
    model.train()
    return loss


@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
def test_the_loss_goes_down_and_stays_finite(prepared, tiny_model, tokenizer):
    task, batch = prepared
    unfit = {"temperature"} if task.head == "regression" else set()  # it divides logits
    for name in sorted(set(toughen.list_methods()) - LIKE_TYPOS - unfit):
        model = tiny_model(task, tokenizer).train()
        # NEFTune's noise is absolute: at its usual size it drowns the embedding of so small a model.
        settings = {"alpha": 0.1} if name == "neftune" else {}
        with make(name, **settings).attach(model, tokenizer, seed=0, total_steps=3) as attached:
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

            def update(optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            before = loss_of(model, batch)
            for _ in range(4):
                loss = attached.backward(model, batch, step=update)
                assert torch.isfinite(loss), (name, task.head)
                update()
            assert loss_of(model, batch) < before, (name, task.head)
