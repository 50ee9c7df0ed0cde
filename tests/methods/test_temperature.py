"""Logits over a temperature: in training, in evaluation, in what is saved, and in the detached model."""

import copy

import pytest
import torch

import toughen
from toughen.errors import MethodError, SiteError

from ..tiny import bert, text_batch


def logits(model):
    with torch.no_grad():
        return model(**text_batch()).logits


def trained(model, steps=2, **settings):
    attached = toughen.temperature(**settings).attach(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        attached.backward(model, text_batch())
        optimizer.step()
        optimizer.zero_grad()
    return attached


def test_the_detached_model_answers_as_in_training():
    model = bert()
    before = logits(model)
    attached = trained(model, steps=0, temperature=50.0)
    torch.testing.assert_close(logits(model), before / 50)
    attached.detach()
    assert torch.equal(logits(model), before)  # nothing was trained, so nothing changes
    attached = trained(model, temperature=50.0)
    during, head = logits(model), model.classifier.weight.detach().clone()
    attached.detach()
    torch.testing.assert_close(logits(model), during)
    torch.testing.assert_close(model.classifier.weight.detach(), head / 50)
    attached.attach()  # as a second training of a Trainer does
    torch.testing.assert_close(logits(model), during)
    torch.testing.assert_close(model.classifier.weight.detach(), head)
    attached.detach()
    torch.testing.assert_close(logits(model), during)


def test_what_is_saved_is_a_plain_model(tmp_path):
    model = bert()
    attached = trained(model)
    during, saved = logits(model), copy.deepcopy(model.state_dict())
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(logits(type(model).from_pretrained(tmp_path).double()), during)
    with torch.no_grad():
        model.classifier.weight.zero_()
    model.load_state_dict(saved)
    torch.testing.assert_close(logits(model), during)
    attached.detach()

    other = bert()  # a run that goes on from its checkpoint, and is scored without another step
    with toughen.temperature().attach(other):
        other.load_state_dict(saved)
        torch.testing.assert_close(logits(other), during)
    torch.testing.assert_close(logits(other), during)


def test_it_adds_to_other_methods():
    model = bert()
    with (toughen.smart() + toughen.temperature(10.0)).attach(model) as attached:
        attached.backward(model, text_batch())
        during = logits(model)
    torch.testing.assert_close(logits(model), during)


def test_what_has_no_logits_of_classes_is_refused():
    with pytest.raises(SiteError, match="predicts one number"):
        toughen.temperature().attach(bert(num_labels=1))
    with pytest.raises(MethodError, match="above 0"):
        toughen.temperature(0.0)
