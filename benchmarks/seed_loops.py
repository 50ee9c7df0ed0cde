"""The loops that people copy today, in plain PyTorch on a BERT classifier: the updates of four public repositories.

Written from their papers and from notes on what their code does, with their own settings; nothing is copied. They do
less than ours: padding and special tokens are perturbed (but for FreeLB's), each pass has a dropout mask of its own,
nothing is counted or checked. `benchmarks/step_time.py --against seeds` holds the engine to their time.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def without_ids(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value for key, value in batch.items() if key != "input_ids"}


def kl(scores: Tensor, target: Tensor, reduction: str) -> Tensor:
    return F.kl_div(scores.log_softmax(-1), target.softmax(-1), reduction=reduction)


class Smart:
    """archinetai/smart-pytorch: the embedding goes in, noise is stepped on and scaled to largest element 1 a token."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, batch: dict[str, Tensor], start: Tensor | None = None) -> None:
        rest = without_ids(batch)
        labels = rest.pop("labels")

        def scores(embedded: Tensor) -> Tensor:
            return self.model(inputs_embeds=embedded, **rest).logits

        embedded = self.model.get_input_embeddings()(batch["input_ids"])
        clean = scores(embedded)
        noise = (1e-5 * torch.randn_like(embedded) if start is None else start.clone()).requires_grad_()
        (grad,) = torch.autograd.grad(kl(scores(embedded + noise), clean.detach(), "batchmean"), noise)
        noise = (noise + 1e-3 * grad).detach()
        noise = noise / (noise.norm(math.inf, dim=-1, keepdim=True) + 1e-6)
        moved = scores(embedded + noise)
        added = kl(moved, clean.detach(), "sum") + kl(clean, moved.detach(), "sum")
        (F.cross_entropy(clean, labels) + 0.02 * added).backward()


class Sift:
    """microsoft/DeBERTa: a LayerNorm before the embedding's own, in every pass; weights frozen while noise steps."""

    def __init__(self, model: Any) -> None:
        self.model, self.noise = model, cast("Tensor | None", None)
        self.hook = model.bert.embeddings.LayerNorm.register_forward_pre_hook(self.normalise)

    def normalise(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.seen = unit = F.layer_norm(args[0], args[0].shape[-1:], eps=1e-7)
        return (unit if self.noise is None else unit.detach() + self.noise,)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        for weight in trained:
            weight.requires_grad_(False)
        yield
        for weight in trained:
            weight.requires_grad_()

    def __call__(self, batch: dict[str, Tensor], start: Tensor | None = None) -> None:
        def cross(a: Tensor, b: Tensor) -> Tensor:
            p, q = a.log_softmax(-1), b.log_softmax(-1)
            return -(q.exp().detach() * p).sum(-1) - (p.exp().detach() * q).sum(-1)

        out = self.model(**batch)
        rest = {key: value for key, value in batch.items() if key != "labels"}
        clean, noise = out.logits, 1e-2 * torch.randn_like(self.seen).clamp(-2, 2) if start is None else start.clone()
        with self.frozen():
            self.noise = noise.requires_grad_()
            cross(self.model(**rest).logits, clean.detach()).sum().backward()
        assert noise.grad is not None
        self.noise = noise.detach()
        if bool(noise.grad.isfinite().all()):
            self.noise += 1e-4 * noise.grad / (1e-6 + noise.grad.abs().amax(-1, keepdim=True))
        added = cross(self.model(**rest).logits, clean).mean()
        self.noise = None
        (out.loss + 5.0 * added).backward()


class FreeLB:
    """zhuchen03/FreeLB, the variant for transformers, l2: every pass trains, and its gradient steps the noise."""

    def __init__(self, model: nn.Module, passes: int = 3) -> None:
        self.model, self.passes = model, passes

    def __call__(self, batch: dict[str, Tensor], start: Tensor | None = None) -> None:
        rest, words, mask = without_ids(batch), self.model.get_input_embeddings(), batch["attention_mask"].unsqueeze(-1)
        embedded = words(batch["input_ids"])
        size = 1e-1 / (batch["attention_mask"].sum(1) * embedded.shape[-1]).float().sqrt()
        noise = torch.empty_like(embedded).uniform_(-1, 1) * mask * size.view(-1, 1, 1) if start is None else start
        for left in reversed(range(self.passes)):
            noise = noise.detach().requires_grad_()
            loss = self.model(inputs_embeds=noise + embedded, **rest).loss
            (loss / self.passes).backward()
            if not left:
                return
            assert noise.grad is not None
            length = noise.grad.flatten(1).norm(dim=1).clamp(min=1e-8).view(-1, 1, 1)
            noise = noise.detach() + 4e-2 * noise.grad / length
            now = noise.flatten(1).norm(dim=1).view(-1, 1, 1)
            noise = noise * torch.where(now > 2e-1, 2e-1 / now, torch.ones_like(now))
            embedded = words(batch["input_ids"])


class _Reversed(torch.autograd.Function):
    """Which pairs stay, 0 or 1, with the sigmoid's slope in the backward pass and the sign reversed."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return (scores > 0).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        soft = ctx.saved_tensors[0].sigmoid()
        return -grad * soft * (1 - soft)


class Asa:
    """gingasan/adversarialSA: a second pass in which adversaries, one a layer and as wide as it, hide pairs."""

    def __init__(self, model: Any, tau: float = 0.5) -> None:
        self.model, self.tau, width = model, tau, model.config.hidden_size
        like = next(model.parameters())
        pairs = [(nn.Linear(width, width), nn.Linear(width, width)) for _ in model.bert.encoder.layer]
        self.adversaries = nn.ModuleList(nn.ModuleList(pair) for pair in pairs).to(like.device, like.dtype)

    def __call__(self, batch: dict[str, Tensor], start: None = None) -> None:
        clean, model = self.model(**batch), self.model
        kinds = batch.get("token_type_ids")
        hidden = model.bert.embeddings(input_ids=batch["input_ids"], token_type_ids=kinds)
        padding, kept = -10000.0 * (1 - batch["attention_mask"][:, None].to(hidden.dtype)), hidden.new_zeros(())
        for layer, (query, key) in zip(model.bert.encoder.layer, self.adversaries, strict=True):
            seen = hidden.detach()
            scores = query(seen) @ key(seen).mT / math.sqrt(seen.shape[-1]) + padding
            visible = _Reversed.apply(scores)
            kept = kept + visible.sum()
            hidden = layer(hidden, ((1 - visible) * -10000.0)[:, None])
        moved = model.classifier(model.dropout(model.bert.pooler(hidden)))
        added = 0.5 * (kl(moved, clean.logits, "batchmean") + kl(clean.logits, moved, "batchmean"))
        (clean.loss + added + self.tau**2 * kept / len(hidden)).backward()
        self.adversaries.zero_grad()


LOOPS = {"smart": Smart, "sift": Sift, "freelb": FreeLB, "asa": Asa}
