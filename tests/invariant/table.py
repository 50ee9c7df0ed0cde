"""The one table of this folder: every method on a tiny model, and one way to run two updates with it."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import toughen
from toughen.errors import RobustnessWarning
from toughen.registry import get_factory
from toughen.search import CustomInit
from toughen.sites.base import Activation

from ..tiny import LETTERS, LIKE_TYPOS, other_tokens, small_bert

EXAMPLES, LENGTH, VOCABULARY = 16, 12, 64


def start(view: Activation) -> Tensor:
    """Noise that depends on each example alone, so that no split of a batch changes it."""
    return 0.02 * torch.sin(1e3 * view.value)


def _named(name: str) -> Callable[[], Any]:
    make = get_factory(name)
    if "init" in inspect.signature(make).parameters:
        return lambda: make(init=start)
    if name == "asa":
        return lambda: make("original")  # it draws nothing; the other preset draws by an example's row
    if name == "words":
        return lambda: make(candidates=other_tokens, noise=0.0)
    if name == "neftune":
        return lambda: replace(make(), search=replace(make().search, init=CustomInit(start)))
    return make


METHODS: dict[str, Callable[[], Any]] = {n: _named(n) for n in toughen.list_methods() if n not in LIKE_TYPOS}
METHODS |= {
    "typos": lambda: toughen.typos(rate=1.0),
    "typos+freelb": lambda: toughen.typos(rate=1.0, worst_of=2, on="both") + toughen.freelb(init=start),
    "words-hull": lambda: toughen.words("hull", candidates=other_tokens, noise=0.0, entropy=0.1),
    "fgm-matrix": lambda: toughen.fgm(preset="matrix"),
    "smart-3": lambda: toughen.smart(init=start, steps=3),
    "smart-paper": lambda: toughen.smart(preset="paper", init=start),
    "freelb-original": lambda: toughen.freelb(preset="original", init=start),
    "sift-deberta": lambda: toughen.sift(preset="deberta", init=start),
    "smart+bregman": lambda: toughen.smart(init=start) + toughen.bregman(),
    "freelb+bregman": lambda: toughen.freelb(init=start) + toughen.bregman(),
}


def tiny(dropout: float = 0.0, dtype: torch.dtype = torch.float64) -> nn.Module:
    return small_bert(dropout, dtype, vocab_size=VOCABULARY)


class Mini(nn.Module):
    """A classifier with the places that sites look for, small enough to be compiled for every method."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(VOCABULARY, 16)
        self.embeddings.LayerNorm = nn.LayerNorm(16)
        self.layers = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.head = nn.Linear(16, 3)
        self.double()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        x = self.embeddings.LayerNorm(self.embeddings.word_embeddings(input_ids))
        for layer in self.layers:
            x = x + layer(x).tanh()
        mask = attention_mask.unsqueeze(-1).to(x.dtype)
        logits = self.head((x * mask).sum(1) / mask.sum(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def batch(seed: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCABULARY, (EXAMPLES, LENGTH), generator=random)
    lengths = torch.randint(4, LENGTH + 1, (EXAMPLES, 1), generator=random)
    mask = (torch.arange(LENGTH) < lengths).long()
    labels = torch.randint(0, 3, (EXAMPLES,), generator=random)
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def parts(whole: Mapping[str, Tensor], number: int) -> list[dict[str, Tensor]]:
    """The batch in so many equal pieces."""
    return [{key: value.chunk(number)[i] for key, value in whole.items()} for i in range(number)]


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def updates(
    method: Any,
    *,
    model: nn.Module | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    accumulate: int = 1,
    mine: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda whole: whole,
    backward: Callable[[Tensor], Any] | None = None,
    before_gradients: Callable[[Any], Any] = lambda attached: None,
    number: int = 2,
) -> dict[str, Tensor]:
    """The gradients of the last of some updates, and the weights they lead to.

    Two updates are the least that shows a teacher that differs from the student, and state that leaks.
    """
    model = tiny() if model is None else model
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        attached = method.attach(model, LETTERS, seed=3, total_steps=10)
    driven = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    found: dict[str, Tensor] = {}
    for update in range(number):
        pieces = parts(mine(batch(update)), accumulate)
        losses = [
            attached.backward(
                driven, piece, accumulate=accumulate, last=i == accumulate - 1, backward=backward, step=step
            )
            for i, piece in enumerate(pieces)
        ]
        before_gradients(attached)
        if update == number - 1:
            found = {name: full(p.grad).clone() for name, p in model.named_parameters() if p.grad is not None}
            found["loss"] = torch.stack(losses).sum()
        step()
    attached.detach()
    return found | {f"weight/{name}": full(p.detach()).clone() for name, p in model.named_parameters()}


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 1e-6) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: n + m)
    assert any(name in one and one[name].abs().max() > 1e-4 for name in one if not name.startswith("weight/"))
