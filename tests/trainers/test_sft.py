"""TRL's SFTTrainer, whose loss is made without logits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import toughen

from ..tiny import llama
from .driving import Gradients, assert_equal, settings, weights

pytest.importorskip("trl", reason="TRL is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

TEXT = "the a cat dog sat ran on under big small mat hill and then was very happy sad today"
WORDS = TEXT.split()


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", *WORDS]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(names)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", bos_token="[BOS]", eos_token="[EOS]"
    )


def trainer(folder: Path, method: Any, callback: Any = None, **changes: Any) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    data = Dataset.from_dict({"text": [" ".join(WORDS[i % 7 : i % 7 + 3 + i % 9]) for i in range(16)]})
    arguments = settings(folder, SFTConfig, max_length=16, bf16=False, **changes)
    kind, more = (SFTTrainer, {}) if method is None else (toughen.robust(SFTTrainer), {"method": method})
    callbacks = [callback] if callback is not None else []
    model = llama()
    return kind(model, arguments, train_dataset=data, processing_class=tokenizer(), callbacks=callbacks, **more)


def test_with_a_method_that_does_nothing_it_is_the_trainer(tmp_path: Path) -> None:
    found = []
    for method in (None, toughen.plain()):
        one = trainer(tmp_path, method, gradient_accumulation_steps=2)
        one.train()
        found.append((weights(one.model), [e["loss"] for e in one.state.log_history if "loss" in e]))
    assert_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("name", ["smart", "r3f", "freelb", "sam", "bregman"])
def test_methods_train(name: str, tmp_path: Path) -> None:
    one = trainer(tmp_path, toughen.make(name))
    one.train()
    logs = [entry for entry in one.state.log_history if "loss" in entry]
    assert len(logs) == 3
    assert all(math.isfinite(value) for entry in logs for value in entry.values())


def test_the_regulariser_has_a_gradient(tmp_path: Path) -> None:
    """Outputs without a graph would leave the comparison out, silently."""
    seen = []
    for weight in (0.0, 10.0):
        gradients = Gradients()
        trainer(tmp_path, toughen.r3f(weight=weight, init_scale=1.0), gradients, max_steps=1, max_grad_norm=0.0).train()
        seen.append(torch.cat([g.flatten() for g in gradients.seen[0].values()]))
    assert (seen[0] - seen[1]).norm() > 1e-2 * seen[0].norm()
