"""Compute smart-pytorch's regulariser on a function of embeddings with the engine's search."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..engine.perturbation import Perturbation
from ..errors import StepError
from ..search import Absolute, Ascent, CustomInit, RawGradient
from ..search.norms import Units
from ..sites.base import Activation


def inf_norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, ord=float("inf"), dim=-1, keepdim=True)


class SMARTLoss(nn.Module):
    """Compute `SMARTLoss(eval_fn, loss_fn, ...)(embed, state)` as in smart-pytorch 0.0.4.

    Kept: `epsilon` only guards a division, so the noise ends with norm about 1 whatever it is; `noise_var` is a
    standard deviation; no masking; the state keeps its gradient in the last loss.

    Mended: several states (with one loss function, or a list of them) work; so do calls under `torch.no_grad()`;
    a gradient that is not finite leaves the noise as it was.

    `init`, a function of the embedding, gives the starting noise in place of a random draw, which is the original's for
    the same seed.
    """

    def __init__(
        self,
        eval_fn: Callable[[Tensor], Any],
        loss_fn: Callable[..., Tensor] | Sequence[Callable[..., Tensor]],
        loss_last_fn: Callable[..., Tensor] | Sequence[Callable[..., Tensor]] | None = None,
        norm_fn: Callable[[Tensor], Tensor] = inf_norm,
        num_steps: int = 1,
        step_size: float = 1e-3,
        epsilon: float = 1e-6,
        noise_var: float = 1e-5,
        init: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.eval_fn = eval_fn
        self.loss_fn = loss_fn
        self.loss_last_fn = loss_fn if loss_last_fn is None else loss_last_fn
        self.norm_fn = norm_fn
        self.num_steps = num_steps
        self.step_size = step_size
        self.epsilon = epsilon
        self.noise_var = noise_var
        self.init = init

    def forward(self, embed: Tensor, state: object) -> Tensor:
        search = self._search()
        view = Activation(embed.detach())
        delta = search.start(view).requires_grad_()
        perturbation = Perturbation({0: delta}, {0: view})
        fixed = [one.detach() for one in _states(state)]
        with torch.enable_grad():
            for _ in range(self.num_steps):
                [noise] = perturbation.deltas
                loss = _loss(self.loss_fn, _states(self.eval_fn(embed + noise.to(embed.dtype))), fixed)
                perturbation.ascend(search, torch.autograd.grad(loss, [noise]))
        [noise] = perturbation.deltas
        states = _states(self.eval_fn(embed + noise.detach().to(embed.dtype)))
        return _loss(self.loss_last_fn, states, _states(state))

    def _search(self) -> Ascent:
        def init(embed: Tensor) -> Tensor:
            return self.init(embed) if self.init else torch.randn_like(embed) * self.noise_var

        def to_norm_one(x: Tensor, view: Activation, units: Units) -> Tensor:
            return x / (self.norm_fn(x) + self.epsilon)

        return Ascent(
            step_size=self.step_size,
            init=CustomInit(lambda view: init(view.value)),
            direction=RawGradient(),
            project=to_norm_one,
            units=Absolute(),
        )


def _states(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else list(state)


def _loss(functions: Any, new: Sequence[Tensor], old: Sequence[Tensor]) -> Tensor:
    """Return one loss for each state; a single function is used for all."""
    if callable(functions):
        functions = [functions] * len(new)
    if not len(functions) == len(new) == len(old):
        raise StepError(
            f"SMARTLoss: eval_fn gave {len(new)} states, {len(old)} were passed in, and there are {len(functions)} "
            "loss functions. Give as many of each, or one loss function for all."
        )
    return torch.stack([function(n, o) for function, n, o in zip(functions, new, old, strict=True)]).sum()
