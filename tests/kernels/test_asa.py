"""ASA's step over sdpa with our kernels, interpreted on a CPU, against the same step in torch."""

import pytest
import torch

import toughen
from toughen.cuda_graphs.compile import compile_layers
from toughen.kernels import attention, mask_function

from ..tiny import bert, gradients, text_batch
from .interpreted import interpreter, needed

pytestmark = [needed, pytest.mark.usefixtures("interpreter")]
__all__ = ["interpreter"]
BATCH = text_batch(2, 12)
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.3}


@pytest.fixture
def ours(monkeypatch):
    """The kernels take any tensor; gives back the list of attentions they made."""
    made = []

    def supports(_tensor):
        return True

    def attend(*args):
        made.append(args)
        return attention._attend(*args)[0]

    def switch_on(spy=True):
        monkeypatch.setattr(attention, "supports", supports)
        monkeypatch.setattr(mask_function, "supports", supports)
        if spy:
            monkeypatch.setattr("toughen.sites.attention_interface.attend", attend)
        return made

    return switch_on


def stepped(checkpointing=False, compiled=False, config=None, **settings):
    model = bert(torch.float32, num_attention_heads=2, **(config or {}))
    attached = toughen.asa(**{"visible": 0.7, **settings}).attach(model, seed=3)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if compiled:
        compile_layers(model, backend="aot_eager")
    torch.manual_seed(9)
    loss = attached.backward(model, BATCH)
    return loss, gradients(model), attached.report()


def same(one, other, tolerance=1e-5):
    assert one[0] == pytest.approx(float(other[0]), rel=1e-5)
    scale = max(grad.abs().max() for grad in other[1].values())
    for name, grad in other[1].items():
        assert (one[1][name] - grad).abs().max() <= tolerance * scale, name


@pytest.mark.parametrize("checkpointing", [False, True])
def test_loss_and_gradients(ours, checkpointing):
    expected = stepped()
    made = ours()
    same(stepped(checkpointing), expected)
    assert len(made) == (4 if checkpointing else 2), "a clean pass without dropout is the model's own"


def test_a_mask_for_each_head(ours):
    expected = stepped(per_head=True)
    made = ours()
    same(stepped(per_head=True), expected)
    assert [args[3].shape for args in made] == [(2, 2, 12, 12)] * 2


def test_what_it_cannot_do_is_left_to_torch(ours):
    """The published BERT zeroes logits before it masks them."""
    expected = stepped(preset="original", config=DROPOUT)
    made = ours()
    same(stepped(preset="original", config=DROPOUT), expected)
    assert not made


def test_both_passes_have_one_dropout_mask(ours):
    """Where nothing is hidden they are the same pass, unless dropout differs."""
    made = ours()
    found = {policy: stepped(config=DROPOUT, visible=1 - 1e-9, dropout=policy)[2] for policy in ("shared", "fresh")}
    assert len(made) == 8
    assert float(found["shared"]["divergence"]) < 1e-9
    assert float(found["fresh"]["divergence"]) > 1e-4


def test_a_checkpointed_step_drops_the_same_pairs(ours):
    ours()
    same(stepped(True, config=DROPOUT), stepped(config=DROPOUT))


def test_compiled_layers(ours):
    ours(spy=False)
    expected = stepped()
    same(stepped(compiled=True), expected)


def test_switched_off(monkeypatch):
    from toughen import kernels

    monkeypatch.setattr(kernels, "enabled", False)
    half = torch.zeros(1, dtype=torch.float16)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(kernels, "_capable", lambda: True)
    assert not kernels.supports(half)
    monkeypatch.setattr(kernels, "enabled", True)
    assert kernels.supports(half)
    assert not kernels.supports(half.float())
