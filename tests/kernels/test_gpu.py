"""ASA over sdpa on a GPU, with our kernels and without."""

import warnings

import pytest
import torch

import toughen
from toughen import kernels
from toughen.cuda_graphs.compile import compile_layers
from toughen.kernels import attention

from ..tiny import bert, gradients, text_batch
from .test_attention import close, hidden, inputs, keeps, written_out

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(not kernels.HAS_TRITON, reason="Triton is not installed"),
]
SIZE = {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256}
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def batch(seed=1):
    return {key: value.cuda() for key, value in text_batch(4, 64, seed=seed).items()}


def on_the_gpu(function, *args):
    return [x.detach().cuda().requires_grad_() for x in function(*args)]


@pytest.mark.parametrize(("length", "dtype"), [(200, torch.bfloat16), (128, torch.float16)])
def test_attention_and_its_gradients(length, dtype):
    query, key, value = on_the_gpu(inputs, 2, 3, length, 64, dtype)
    (mask,) = on_the_gpu(lambda: [hidden(2, length, dtype)])
    out, _, words, drawn = attention._attend(query, key, value, mask, 0.125, 0.1)
    expected = written_out(query, key, value, mask, 0.125, keeps(words, drawn, 0.1), 0.1)
    close(out, expected, 1e-2)
    grad = torch.randn_like(out)
    ours = torch.autograd.grad(out, (query, key, value, mask), grad)
    theirs = torch.autograd.grad(expected, (query, key, value, mask), grad.double())
    for mine, reference in zip(ours, theirs, strict=True):
        close(mine, reference, 2e-2)
    again = torch.autograd.grad(attention.attend(query, key, value, mask, 0.125, 0.0), mask, grad)
    assert torch.equal(
        again[0], torch.autograd.grad(attention.attend(query, key, value, mask, 0.125, 0.0), mask, grad)[0]
    ), "two runs give the same bits"


def steps(compiled=False, captured=False, count=1, config=None, **settings):
    """Losses of a few steps on one batch without updates between, the last gradients and the report."""
    model = bert(torch.float32, **{**SIZE, **(config or {})}).cuda()
    attached = toughen.asa(**{"visible": 0.7, **settings}).attach(model, seed=3)
    if compiled:
        compile_layers(model)
    step = attached.capture(model) if captured else lambda inputs: attached.backward(model, inputs)
    torch.manual_seed(9)
    losses = []
    for _ in range(count):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            losses.append(float(step(batch())))
    if captured:
        assert step.obstacle is None
        assert step.steps["captured"] == count - 1 - compiled
    return losses, gradients(model), {name: float(figure) for name, figure in attached.report().items()}


def differ(one, other):
    """How far apart two sets of gradients are, relatively: the model's, and the adversary's."""
    found = []
    for adversary in (False, True):
        names = [name for name in other if ("adversary" in name) == adversary]
        mine, reference = (torch.cat([grads[name].flatten() for name in names]) for grads in (one, other))
        found.append(float((mine - reference).norm() / reference.norm()))
    return found


def test_a_step_is_that_without_kernels(monkeypatch):
    ours = steps()
    monkeypatch.setattr(kernels, "enabled", False)
    theirs = steps()
    assert ours[0] == pytest.approx(theirs[0], rel=1e-2)
    assert ours[2]["budget"] == pytest.approx(theirs[2]["budget"], rel=1e-3)
    of_model, of_adversary = differ(ours[1], theirs[1])
    assert of_model < 0.05
    assert of_adversary < 0.1


def test_the_kernels_are_in_use(monkeypatch):
    made = []
    usual = attention._attend

    def spy(*args):
        made.append(args[3].dtype)
        return usual(*args)

    monkeypatch.setattr(attention, "_attend", spy)
    steps()
    assert made == [torch.bfloat16] * 2
    made.clear()
    steps(config=DROPOUT)
    assert made == [torch.bool] * 2 + [torch.bfloat16] * 2, "with dropout in the clean pass too"


def test_both_passes_have_one_dropout_mask():
    *_, report = steps(config=DROPOUT, visible=1 - 1e-9)
    assert report["divergence"] < 1e-4
    *_, fresh = steps(config=DROPOUT, visible=1 - 1e-9, dropout="fresh")
    assert fresh["divergence"] > 10 * max(report["divergence"], 1e-5)


def test_captured_with_dropout():
    """Replays draw what the steps they stand for would have drawn."""
    eager, captured = steps(count=5, config=DROPOUT), steps(count=5, config=DROPOUT, captured=True)
    assert len(set(eager[0])) == 5
    assert captured[0] == pytest.approx(eager[0], rel=2e-2)
    assert max(differ(captured[1], eager[1])) < 0.05


def test_compiled_and_captured():
    eager = steps(count=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = steps(count=4, compiled=True, captured=True)
    torch.compiler.reset()
    assert both[0] == pytest.approx(eager[0], rel=2e-2)
    assert max(differ(both[1], eager[1])) < 0.1


def test_compiled_passes_have_one_dropout_mask():
    """Compiled code draws by pieces: clean and perturbed layers must be cut alike."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        *_, report = steps(count=2, config=DROPOUT, compiled=True, visible=1 - 1e-9)
    torch.compiler.reset()
    assert report["divergence"] < 1e-4


def test_nothing_waits_for_the_device():
    query, key, value = on_the_gpu(inputs, 2, 2, 64, 64, torch.bfloat16)
    (mask,) = on_the_gpu(lambda: [hidden(2, 64, torch.bfloat16)])

    def run():
        attention.attend(query, key, value, mask, 0.125, 0.1).sum().backward()

    run()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
