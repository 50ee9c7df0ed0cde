"""Parts of a user's own, which are objects of the right form and no more, are as good as the library's."""

from dataclasses import replace

import pytest
import torch

import toughen
from tests.tiny import TOKENIZER, assert_same_gradients, bert, gradients, text_batch
from toughen.combine import Accumulate, FreeReplay
from toughen.errors import MethodError
from toughen.sites import Hidden
from toughen.sites.base import Activation


class AfterFirstLayer:
    """A site inside a layer that declares nothing."""

    def attach(self, model, inject):
        def hook(_module, _args, output):
            hidden, *rest = output if isinstance(output, tuple) else (output,)
            if not inject.active:
                return None
            moved = hidden + inject(0, lambda: Activation(hidden.detach())).to(hidden.dtype)
            return (moved, *rest) if isinstance(output, tuple) else moved

        return model.bert.encoder.layer[0].attention.register_forward_hook(hook).remove


def test_a_site_inside_a_checkpointed_layer_recomputes_with_its_perturbation():
    found = []
    for checkpointed in (False, True):
        model, batch = bert(), text_batch()
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        method = replace(toughen.smart(step_size=0.3, init_scale=0.1, max_norm=0.3), site=AfterFirstLayer())
        with method.attach(model, TOKENIZER, seed=3) as attached:
            attached.backward(model, batch)
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0], tolerance=1e-9)
    model = bert()  # and the perturbation is felt: without it the gradient is another one
    toughen.plain().attach(model).backward(model, text_batch())
    assert any((found[0][name] - value).abs().max() > 1e-4 for name, value in gradients(model).items())


def farther(perturbed, clean, deltas):
    """How far the largest score is from the clean one."""
    scores, before = (outputs.predictions[0].scores.amax(-1) for outputs in (perturbed, clean))
    return (scores - before.detach()).square().mean()


@pytest.mark.parametrize("combine", [Accumulate(3), FreeReplay(3)], ids=lambda combine: type(combine).__name__)
def test_a_comparison_that_says_nothing_is_refused_where_no_clean_pass_is_made(combine):
    search = toughen.freelb(steps=3).search
    with pytest.raises(MethodError, match="needs_clean = False"):
        replace(toughen.freelb(steps=3), compare=farther, combine=combine, search=search)


class LossOnly:
    """A comparison that reads the perturbed pass alone, and says so."""

    needs_clean = False

    def __call__(self, perturbed, clean, deltas):
        assert clean is None
        return perturbed.loss


def test_a_comparison_that_says_what_it_needs_runs_under_accumulate():
    found = []
    for compare in (toughen.freelb().compare, LossOnly()):
        model = bert()
        with replace(toughen.freelb(), compare=compare).attach(model, TOKENIZER, seed=3) as attached:
            attached.backward(model, text_batch())
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0], tolerance=0)


def test_a_comparison_that_says_nothing_works_beside_a_clean_pass():
    model = bert()
    method = replace(toughen.smart(), compare=farther, search_objective=farther, site=Hidden(0))
    with method.attach(model, TOKENIZER, seed=3) as attached:
        attached.backward(model, text_batch())
        assert attached.report()["delta_from_gradient"] > 0.5
    assert torch.isfinite(next(model.parameters()).grad).all()
