"""PEFT: the adapters alone are trained, by every method and driver."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer

import toughen

from ..tiny import LETTERS, make
from ..tiny import small_bert as bert
from .driving import ALL, collated, settings, texts, weights
from .test_accelerate import accelerator

peft = pytest.importorskip("peft", reason="PEFT is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")


def adapted(dropout: float = 0.0) -> Any:
    config = peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"])
    torch.manual_seed(1)
    model = peft.get_peft_model(bert(dropout), config)
    for name, parameter in model.named_parameters():  # LoRA starts at zero; some signal for the comparison
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return model.train()


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_every_method_trains_the_adapters_alone(name: str, checkpointing: bool) -> None:
    model = adapted()
    if checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    with make(name).attach(model, LETTERS, total_steps=2) as attached:
        for _ in range(2):
            step()
            loss = attached.backward(model, collated(texts()), step=step)
    assert math.isfinite(loss)
    found = gradients(model)
    assert found
    assert all("lora" in key or "modules_to_save" in key for key in found)


def test_creat_sees_the_backbone_s_features() -> None:
    """Under an adapter `base_model` is the whole model: its output is no hidden state."""
    from toughen.compare.model_outputs import ModelOutputs
    from toughen.engine.features import FeatureHook

    model = adapted()
    watch = FeatureHook(model)
    batch = collated(texts())
    features = watch.capture(lambda: ModelOutputs(model(**batch).loss, ()), batch).features
    watch.detach()
    assert features is not None
    assert features.shape == (16, 32)


def test_drivers_agree(tmp_path: Path) -> None:
    batch, found = collated(texts(4)), []
    for driver in ("plain", "accelerate", "trainer"):
        model = adapted()
        method = toughen.smart(init=lambda view: 0.02 * torch.sin(1e3 * view.value))
        if driver == "trainer":
            arguments = settings(tmp_path, max_steps=1, max_grad_norm=0.0, optim="sgd", lr_scheduler_type="constant")
            toughen.robust(Trainer)(model, arguments, train_dataset=texts(4), method=method).train()
        else:
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-2)
            attached = method.attach(model)
            if driver == "plain":
                attached.backward(model, batch)
            else:
                toughen.accelerated_backward(accelerator(1), attached, model, batch)
            optimizer.step()
        found.append(weights(model))
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for key in other:
            torch.testing.assert_close(other[key], found[0][key], rtol=1e-5, atol=1e-6, msg=key)
