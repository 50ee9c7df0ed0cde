"""TRL's other Trainers: passes of a reference, figures that count passes, batches that are generated."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import toughen
from toughen.errors import MethodError

from .driving import settings, weights
from .test_sft import tokenizer

trl = pytest.importorskip("trl", reason="TRL is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.2, pad_token_id=0))


def train(folder: Path, name: str, method: Any, data: dict[str, Any], more: dict[str, Any], **changes: Any) -> Any:
    from datasets import Dataset

    kind: Any = getattr(trl, f"{name}Trainer")
    arguments = settings(folder, getattr(trl, f"{name}Config"), bf16=False, **changes)
    kind, extra = (kind, more) if method is None else (toughen.robust(kind), {**more, "method": method})
    one = kind(llama(), args=arguments, train_dataset=Dataset.from_dict(data), processing_class=tokenizer(), **extra)
    one.train()
    return one


def dpo(folder: Path, method: Any, more: dict[str, Any], **changes: Any) -> Any:
    data = {"prompt": ["the cat"] * 8, "chosen": [" sat on mat"] * 8, "rejected": [" ran under the big hill"] * 8}
    return train(folder, "DPO", method, data, more, **{"max_steps": 1, "gradient_checkpointing": False, **changes})


def logged(trainer: Any, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_a_reference_without_its_adapter_is_not_perturbed(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    method = toughen.fgm(step_size=0.3)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"])
    apart = logged(dpo(tmp_path, method, {"ref_model": llama()}), "robust/term")
    same = logged(dpo(tmp_path, method, {"peft_config": lora}), "robust/term")
    assert same == pytest.approx(apart, abs=1e-6)
    assert same[0] > 0.7  # log(2) without a perturbation


def test_checkpointing_switched_within_a_step(tmp_path: Path) -> None:
    found = []
    for on in (True, False):
        trainer = dpo(tmp_path, toughen.asa(), {"ref_model": llama()}, gradient_checkpointing=on, optim="sgd")
        found.append(weights(trainer.model))
    for name, value in found[1].items():
        torch.testing.assert_close(found[0][name], value, msg=name)


@pytest.mark.parametrize("method", [toughen.smart(step_size=0.3, max_norm=0.3), toughen.freelb()])
def test_metrics_are_those_of_one_pass(method: Any, tmp_path: Path) -> None:
    stock, robust = (dpo(tmp_path, each, {"ref_model": llama()}) for each in (None, method))
    assert logged(robust, "num_tokens") == logged(stock, "num_tokens")
    if "robust/loss_clean" in robust.state.log_history[0]:
        for name in ("rewards/margins", "entropy", "mean_token_accuracy"):
            assert logged(robust, name) == logged(stock, name)


def grpo(folder: Path, method: Any) -> tuple[list[int], Any]:
    asked: list[int] = []

    def reward(completions: list[str], **_: Any) -> list[float]:
        asked.append(1)
        return [float(len(text)) for text in completions]

    sizes = {"num_generations": 2, "max_completion_length": 4, "gradient_accumulation_steps": 2, "max_steps": 2}
    more = {"reward_funcs": reward}
    return asked, train(folder, "GRPO", method, {"prompt": ["the cat"] * 16}, more, **sizes)


def test_texts_are_generated_once_for_all_passes(tmp_path: Path) -> None:
    (plainly, stock), (asked, robust) = grpo(tmp_path, None), grpo(tmp_path, toughen.freelb())
    assert (asked, robust._step) == (plainly, stock._step)
    assert logged(robust, "num_tokens") == logged(stock, "num_tokens")
    with pytest.raises(MethodError, match=r"no predictions.*toughen.freelb\(\)"):
        grpo(tmp_path, toughen.smart())


def test_two_texts_in_a_pass(tmp_path: Path) -> None:
    """KTO runs the model on a second completion without gradients, of another length."""
    data = {"prompt": ["the cat"] * 8, "completion": [" sat on mat", " ran"] * 4, "label": [True, False] * 4}
    for method in (toughen.asa(), toughen.smart()):
        trainer = train(tmp_path, "KTO", method, data, {"ref_model": llama()}, max_steps=1)
        assert logged(trainer, "robust/term")[0] > 0
