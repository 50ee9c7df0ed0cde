"""ASA on real-valued labels: the price of hiding is in units of their variance, whatever they measure."""

import pytest
import torch
from transformers import Trainer

import toughen
from toughen.engine.label_variance import RunningLabelVariance

from ..trainers.tiny import settings
from .test_method import BATCH, bert

LABELS = torch.tensor([0.1, 0.5, -1.0], dtype=torch.float64)


def adversary_gradients(scale, shift, **settings):
    """Of one step of a model whose answers and labels are `scale` times as large, and `shift` further."""
    model = bert(num_labels=1)
    with torch.no_grad():
        model.classifier.weight *= scale
        model.classifier.bias.mul_(scale).add_(shift)
    attached = toughen.asa(visible=0.5, **settings).attach(model, seed=0)
    attached.backward(model, {**BATCH, "labels": scale * LABELS + shift})
    return torch.cat([weight.grad.flatten() for weight in attached.adversary.parameters()])


@pytest.mark.parametrize(("scale", "shift"), [(10.0, 0.0), (1.0, 2000.0), (0.1, -3.0)])
def test_the_adversary_learns_the_same_whatever_the_labels_measure(scale, shift):
    """Its whole gradient scales alike, which optimizers of Adam's kind undo: neither side of the bargain gains."""
    expected = adversary_gradients(1.0, 0.0)
    assert expected.norm() > 0
    torch.testing.assert_close(adversary_gradients(scale, shift), scale**2 * expected, rtol=1e-6, atol=0)


def test_the_price_is_the_labels_variance():
    model = bert(num_labels=1)
    attached = toughen.asa(tau=0.5, weight=1.0).attach(model, seed=0)
    for batch in (BATCH | {"labels": LABELS}, BATCH | {"labels": 3 + LABELS}):
        attached.backward(model, batch)
    seen = attached.report()
    variance = torch.cat([LABELS, 3 + LABELS]).var(correction=0)
    torch.testing.assert_close(seen["term"], seen["divergence"] + 0.25 * variance * seen["budget"])


def test_a_classifier_pays_as_it_always_did():
    model = bert()
    attached = toughen.asa(tau=0.5, weight=1.0).attach(model, seed=0)
    attached.backward(model, BATCH)
    seen = attached.report()
    torch.testing.assert_close(seen["term"], seen["divergence"] + 0.25 * seen["budget"])
    assert not [name for name in attached.state_dict() if name.startswith("spread")]


def test_a_resumed_run_knows_the_labels_it_has_seen():
    batches = [BATCH | {"labels": LABELS}, BATCH | {"labels": 5 * LABELS}]
    terms = []
    for resumed in (False, True):
        model = bert(num_labels=1)
        attached = toughen.asa().attach(model, seed=0)
        attached.backward(model, batches[0])
        if resumed:
            state = attached.state_dict()
            attached.detach()
            attached = toughen.asa().attach(model, seed=0)
            attached.load_state_dict(state)
        attached.backward(model, batches[1])
        terms.append(attached.report()["term"])
    assert torch.equal(*terms)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_spread_of_all_batches_is_that_of_one(columns):
    labels = torch.randn(12, columns, dtype=torch.float64) * torch.arange(1, columns + 1) + 100
    spread = RunningLabelVariance()
    for part in labels.split(5):
        found = spread.update(part.squeeze(1) if columns == 1 else part)
    torch.testing.assert_close(found, labels.var(0, correction=0).mean())


def test_labels_that_are_all_alike_have_no_spread_below_zero():
    """By rounding it would be negative, and hiding would pay the adversary."""
    for value in torch.linspace(1, 1000, 20):
        assert RunningLabelVariance().update(value.repeat(7).double() + 0.1) >= 0


def test_a_second_training_counts_its_own_labels(tmp_path):
    """Those of the first may have measured something else."""
    rows = [{key: value[row] for key, value in BATCH.items()} for row in range(3)]
    spreads = []
    trainer = toughen.robust(Trainer)(
        bert(torch.float32, num_labels=1), settings(tmp_path, max_steps=1), method=toughen.asa()
    )
    for scale in (100.0, 1.0):
        trainer.train_dataset = [{**row, "labels": scale * LABELS[i].float()} for i, row in enumerate(rows)]
        trainer.train()
        spreads.append(trainer.attached.state_dict()["spread/0/sums"])
    assert spreads[1][0] == spreads[0][0] == 3
    torch.testing.assert_close(spreads[1][1:] * torch.tensor([[100.0], [1e4]]), spreads[0][1:], rtol=1e-6, atol=0)
