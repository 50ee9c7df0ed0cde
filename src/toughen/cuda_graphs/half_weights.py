"""Half-precision copies of weights, made once a step.

Autocast keeps its copies until it is left, which Accelerate does after every pass, and never inside compiled layers.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..internal.foreach import HALF, copy_all
from .packing import find_stack


class _Copies(torch.autograd.Function):
    """Stands for weights with copies of them. Each pass adds its gradients to the weights' in their own precision."""

    @staticmethod
    def forward(ctx: Any, copies: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.dtype = weights[0].dtype
        return tuple(copy.detach() for copy in copies)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        found = [grad for grad in grad_outputs if grad is not None]
        wide = [torch.empty_like(grad, dtype=ctx.dtype) for grad in found]
        copy_all(wide, found)
        rest = iter(wide)
        return (None, *[None if grad is None else next(rest) for grad in grad_outputs])


class HalfWeights:
    """A model whose linear layers compute with half-precision copies of their weights, inside `of_step()`.

    Args:
        model: The model.
        linears: Linear layers that compute in this precision in every pass.
        dtype: The precision.
    """

    def __init__(self, model: nn.Module, linears: Sequence[nn.Linear], dtype: torch.dtype) -> None:
        self.model, self.dtype = model, dtype
        self.places: list[tuple[dict[str, Any], str, nn.Parameter]] = [
            (vars(linear)["_parameters"], name, weight)
            for linear in linears
            for name, weight in linear.named_parameters(recurse=False)
        ]
        self.copies: dict[nn.Parameter, Tensor] = {}

    @contextmanager
    def of_step(self) -> Generator[None]:
        """Compute with copies of the weights as they are now."""
        if not self.copies:
            self.copies = {weight: torch.empty_like(weight, dtype=self.dtype) for *_, weight in self.places}
        with torch.no_grad():
            copy_all(list(self.copies.values()), list(self.copies))
        handles = (
            self.model.register_forward_pre_hook(self._enter),
            self.model.register_forward_hook(self._leave, always_call=True),
        )
        try:
            yield
        finally:
            self._leave()
            for handle in handles:
                handle.remove()

    def _enter(self, *_: Any) -> None:
        trained = [weight for weight in self.copies if weight.requires_grad]
        given = dict(self.copies)
        if trained and torch.is_grad_enabled():
            values: Any = _Copies.apply([self.copies[weight] for weight in trained], *trained)
            given |= dict(zip(trained, values, strict=True))
        for parameters, name, weight in self.places:
            parameters[name] = given[weight]  # as torch.func.functional_call does

    def _leave(self, *_: Any) -> None:
        for parameters, name, weight in self.places:
            parameters[name] = weight


def half_weights_of(model: nn.Module, dtype: torch.dtype | None) -> HalfWeights | None:
    """Return the copies of a model whose layers autocast runs in half precision; None for families we do not know.

    A layer of others may leave autocast for a product in float32, where a half-precision weight would not fit.
    """
    found = find_stack(model)
    if found is None or dtype not in HALF:
        return None
    linears = [module for module in found[0].modules() if isinstance(module, nn.Linear) and _is_plain(module)]
    return HalfWeights(model, linears, dtype) if linears else None


def _is_plain(linear: nn.Linear) -> bool:
    return type(linear) is nn.Linear and "forward" not in vars(linear) and linear.weight.dtype == torch.float32
