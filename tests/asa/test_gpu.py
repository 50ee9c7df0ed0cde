"""What only a GPU can show: fused kernels give the mask its gradient, and nothing is read from the device."""

import pytest
import torch

import toughen

from .families import batch, build

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def gradient(family, implementation, dtype, **settings):
    model = build(family, hidden_size=128, num_attention_heads=4).cuda()
    model.set_attn_implementation(implementation)
    attached = toughen.asa(visible=0.7, tau=0.0, **settings).attach(model, seed=0)
    inputs = {key: value.cuda() for key, value in batch(family, rows=4, length=64).items()}
    with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        attached.backward(model, inputs)
    return torch.cat([p.grad.flatten() for p in attached.adversary.parameters()])


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_fused_kernels_give_the_mask_a_gradient(dtype, per_head):
    eager, fused = (gradient("bert", i, dtype, per_head=per_head) for i in ("eager", "sdpa"))
    assert eager.norm() > 0
    assert (eager - fused).norm() < (1e-3 if dtype == torch.float32 else 0.2) * eager.norm()


def test_noise_is_the_same_on_every_device():
    from toughen.search.counter_rng import draw_words, logistic_noise

    key = torch.tensor([123, -456], dtype=torch.int32)
    here, there = (logistic_noise(draw_words(k, 2, 3, 40), torch.float32) for k in (key, key.cuda()))
    assert torch.allclose(here, there.cpu(), atol=1e-5)


def test_no_step_waits_for_the_device():
    model = build("gpt2").cuda()
    attached = toughen.asa().attach(model, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = {key: value.cuda() for key, value in batch("gpt2").items()}
    view = attached.states[0].injector

    def propose():
        from toughen.engine.perturbation import Perturbation
        from toughen.sites.base import AttentionActivation

        view.current = Perturbation()
        view(
            0,
            lambda: AttentionActivation(
                torch.randn(2, 8, 32, device="cuda"), queries=torch.ones(2, 8, device="cuda").bool()
            ),
        )
        view.current = None

    attached.backward(model, inputs)
    optimizer.step()
    propose()
    torch.cuda.set_sync_debug_mode("error")
    try:
        propose()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_captured_regression_goes_on_counting_its_labels():
    """The price follows all labels so far: a graph must add to the same memory, replay after replay."""
    spreads = []
    for fast in (False, True):
        model = build("bert", num_labels=1).cuda()
        attached = toughen.asa().attach(model, seed=0)
        step = attached.capture(model) if fast else lambda inputs: attached.backward(model, inputs)  # noqa: B023
        for number in range(5):
            inputs = {key: value.cuda() for key, value in batch("bert").items()}
            step(inputs | {"labels": (1.0 + number) * inputs["labels"].float()})
            model.zero_grad(set_to_none=True)
        assert not fast or step.steps["captured"] >= 3, step.obstacle
        spreads.append(attached.state_dict()["spread/0/sums"].cpu())
    torch.testing.assert_close(*spreads)
    assert spreads[0][0] == 15
