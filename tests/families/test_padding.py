"""Extra padding never changes a loss or a gradient, on either side."""

from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from toughen.internal.architectures import IGNORED
from toughen.registry import get_factory
from toughen.search import CustomInit, Noise
from toughen.sites.base import Activation

from ..tiny import bert, gradients, make, text_batch
from .test_families import METHODS, attached_to, refusal, step
from .zoo import FAMILIES, WIDTH, text, words

EXTRA = (0, 3, 11)
# Encoders' sentence heads read the first column, so they cannot be padded on the left; token heads can.
CASES = [
    ("bert", "right"),
    ("roberta", "right"),
    ("deberta-v2", "right"),
    ("llama", "right"),
    ("llama-lm", "right"),
    ("bert-tokens", "left"),
    ("roberta-tokens", "left"),
    ("deberta-v2-tokens", "left"),
    ("llama", "left"),
    ("llama-lm", "left"),
]


def family_of(head: str) -> str:
    return head.removesuffix("-tokens").removesuffix("-lm")


@cache
def model_of(head: str) -> nn.Module:
    """Without dropout, whose masks depend on the shape; in float64, where nothing hides behind rounding."""
    kind = head.removeprefix(family_of(head))
    auto = {"-tokens": hf.AutoModelForTokenClassification, "-lm": hf.AutoModelForCausalLM}
    sentence = hf.AutoModelForSequenceClassification
    return FAMILIES[family_of(head)].build(auto.get(kind, sentence), dropout=0.0, num_labels=3).double()


def batch_of(head: str, side: str, extra: int) -> dict[str, Tensor]:
    batch = text(side=side, extra=extra)
    if head.endswith("-lm"):
        after_first = batch["attention_mask"].cumsum(1) * batch["attention_mask"] > 1  # no token predicts the first
        batch["labels"] = torch.where(after_first, batch["input_ids"], IGNORED)
    elif head.endswith("-tokens"):
        batch["labels"] = torch.where(words(batch), batch["input_ids"] % 3, IGNORED)
    else:
        batch["labels"] = torch.tensor([0, 2, 1])
    if side == "left" and family_of(head) in ("bert", "llama"):  # these count positions from the left edge
        batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    return batch


def same_noise(batch: dict[str, Tensor]) -> Any:
    """Noise that belongs to the tokens, wherever they stand."""
    tokens = 0.02 * torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def start(view: Activation) -> Tensor:
        noise = torch.zeros_like(view.value)
        for row, mask in enumerate(batch["attention_mask"].bool()):
            noise[row, mask] = tokens[row, : int(mask.sum())]
        return noise

    return start


def method_with(name: str, init: Any) -> Any:
    if init is not None and "init" in signature(get_factory(name)).parameters:
        return make(name, init=init)
    settings = {"typos": {"rate": 1.0}, "words": {"noise": 0.0} if init is not None else {}}
    method = make(name, **settings.get(name, {}))
    return replace(method, search=Noise(CustomInit(init))) if init is not None and name == "neftune" else method


def one_step(head: str, name: str, side: str, extra: int) -> tuple[Tensor, dict[str, Tensor]]:
    model = model_of(head)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    batch = batch_of(head, side, extra)
    method = method_with(name, same_noise(batch) if side == "left" else None)
    with attached_to(model, method) as attached:
        loss = step(attached, model, batch)
        grads = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.load_state_dict(weights)
    return loss, grads


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("head", "side"), CASES)
def test_extra_padding_changes_nothing(head: str, side: str, name: str) -> None:
    if name == "typos" and head.endswith("-lm"):
        pytest.skip("its labels are its text, which is not edited: see test_heads")
    if refusal(family_of(head), name):
        pytest.skip("the family cannot carry the method")
    (loss, grads), *others = [one_step(head, name, side, extra) for extra in EXTRA]
    largest = max(float(grad.abs().max()) for grad in grads.values())
    exact = 1e-6 if head.endswith("-lm") else 1e-9  # transformers takes language models' losses in float32
    for other_loss, other_grads in others:
        torch.testing.assert_close(other_loss, loss, rtol=exact, atol=0.0)
        assert other_grads.keys() == grads.keys()
        for key, grad in grads.items():
            torch.testing.assert_close(other_grads[key], grad, rtol=1e-5, atol=1e-7 * largest, msg=key)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("method", ["asa", "smart", "creat"])
def test_a_mask_that_is_added_says_the_same(method, side):
    """(B, 1, 1, L), 0 for words and a low number for padding, is the 2-D mask in the form a model's layers use."""
    batch = text_batch()
    if side == "left":
        batch |= {name: batch[name].flip(1) for name in ("input_ids", "attention_mask")}
    added = (1 - batch["attention_mask"][:, None, None].double()) * torch.finfo(torch.float64).min
    results = []
    for mask in (batch["attention_mask"], added):
        model = bert()
        attached = get_factory(method)().attach(model, seed=3)
        loss = attached.backward(model, {**batch, "attention_mask": mask})
        results.append({"loss": loss, **gradients(model)})
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, msg=name)
