"""Micro-batches as CUDA graphs, and the captured step of a plain PyTorch loop."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..engine.attached import Attached
from ..errors import MethodError
from ..internal.architectures import is_compiled_whole
from ..internal.foreach import half_dtype
from .capture import Key
from .compile import CompiledLayers
from .eligibility import can_pack, method_reason, weights_stay
from .gradient_exchange import exchange_of
from .graph_cache import GraphCache, StepFn
from .half_weights import HalfWeights, half_weights_of
from .optimizer import CapturedUpdate
from .packing import Packing, drop_full_mask, packing_of, padding_token, real_tokens, tokens_to_compute


class CapturedPasses:
    """The passes of one micro-batch at a time as CUDA graphs, without padding where that pays."""

    def __init__(self, attached: Attached, model: nn.Module, optimizer: Optimizer | None) -> None:
        self.exchange = exchange_of(model, attached.backward_passes())
        self.model: nn.Module = model if self.exchange is None else self.exchange.module  # that the passes run
        self.attached, self.captured = attached, GraphCache(attached, self.model)
        self.layers: CompiledLayers | None = None
        self.tokens = 0  # that the layers computed in the last pass
        self.update = None if optimizer is None else CapturedUpdate(self.captured, optimizer)
        self.packing: Packing | None = None
        self.half_weights: HalfWeights | None = None
        self._casts_once = True
        self.captured.simplify = self._simplify

    def _simplify(self) -> bool:
        """Give one speed-up up, since a capture has failed; return whether there was one left."""
        if self.attached.overlap and self.attached.overlapped:
            self.attached.overlap = False
        elif self._casts_once and self.half_weights is not None:
            self._casts_once = False  # its copies stay: graphs that were captured before write to them
        else:
            return False
        return True

    def set_precision(self, half: torch.dtype | None, pack: bool = True) -> None:
        """Make use of the half precision in which layers compute, if the method and the model allow it.

        Padding is left out of the layers from now on, and weights are cast once for all passes of a micro-batch.
        """
        model, states = self.attached.model, self.attached.states
        self.packing = packing_of(model, half is not None) if pack and can_pack(states) else None
        whole = is_compiled_whole(self.captured.model) or is_compiled_whole(model)  # with hooks, which put copies in
        self.half_weights = half_weights_of(model, half) if weights_stay(states) and not whole else None

    def compile(self, **options: Any) -> None:
        """Compile the layers within steps from now on; what is captured is captured again."""
        self.captured.clear()
        self.layers, self.captured.compiled = CompiledLayers(self.model, **options), True

    def run(
        self,
        passes: StepFn,
        batch: Mapping[str, Any],
        real: int | None,
        *,
        last: bool,
        extra_key: Key = (),
        updates: bool = False,
        **more: Any,
    ) -> Tensor:
        """Run `passes` on a batch with `real` tokens that are no padding; `more` travels with the batch.

        Views of its texts are made before, as inputs of the graph.
        """
        batch = self.attached.add_views(batch)
        tokens = tokens_to_compute(batch, real) if self.packing is not None else None
        self.tokens = tokens or (batch["input_ids"].numel() if "input_ids" in batch else 0)

        def run(inputs: dict[str, Any]) -> Tensor:
            copies = self.half_weights if self._casts_once and self.captured.obstacle is None else None
            with (
                nullcontext() if self.packing is None else self.packing.of(inputs, tokens),
                nullcontext() if self.layers is None else self.layers.active(),
                nullcontext() if copies is None else copies.of_step(),
            ):
                return passes(inputs)

        backward_passes = self.attached.backward_passes(last)
        loss = self.captured(
            run,
            {**drop_full_mask(batch, real), **more},
            last=last,
            multiple_backwards=len(backward_passes) > 1,
            extra_key=(tokens, *extra_key),
            obstacle=method_reason(self.attached.states, backward_passes, last, updates),
        )
        if last and self.exchange is not None:
            self.exchange()
        return loss

    def close(self) -> None:
        """Give the model its own attention back, and the graphs' memory."""
        if self.packing is not None:
            self.packing.detach()
        self.half_weights = None
        self.captured.clear()


class CapturedStep(CapturedPasses):
    """`attached.backward` of a plain loop, captured: returns the loss, detached, and leaves gradients on the weights.

    With an `optimizer` it makes the whole update: gradients are clipped to `max_norm`, the weights move, and the
    gradients are cleared. Fused Adam and AdamW are captured as well, others run as they are.

    Give it batches as the loader makes them: of a mask on the CPU it is known what is padding, which is then left out
    of the layers where that pays (`pack`).
    """

    def __init__(
        self,
        attached: Attached,
        model: nn.Module,
        backward: Callable[[Tensor], Any] | None = None,
        pack: bool = True,
        optimizer: Optimizer | None = None,
        max_norm: float | None = None,
    ) -> None:
        if optimizer is None and max_norm is not None:
            raise MethodError("max_norm= clips in an update, which needs its optimizer=; clip yourself without one.")
        if optimizer is not None and backward is not None:
            raise MethodError("backward= (a GradScaler) makes updates of its own: leave optimizer= out.")
        super().__init__(attached, model, optimizer)
        self._backward, self.max_norm = backward, max_norm
        self._pack, self._decided = pack, False

    @property
    def obstacle(self) -> str | None:
        return self.captured.obstacle

    @property
    def steps(self) -> dict[str, int]:
        return self.captured.steps

    def __call__(self, batch: Mapping[str, Any], *, accumulate: int = 1, last: bool = True) -> Tensor:
        if not self._decided:  # until now, as autocast is on round the step and seldom round its making
            self.set_precision(half_dtype(next(self.model.parameters())), self._pack)
            self._decided = True
        update = self.update if last else None
        key = None if update is None or self.exchange is not None else update.in_graph_key()
        in_graph = key is not None
        act = None
        if update is not None:
            act = partial(update.step_in_graph if in_graph else update.step_after, self.max_norm)

        def passes(inputs: dict[str, Any]) -> Tensor:
            loss = self.attached.backward(
                self.model, inputs, accumulate=accumulate, last=last, backward=self._backward, step=act
            )
            if in_graph and act is not None:
                act()
            return loss

        real = real_tokens(batch, padding_token(self.attached.model))
        loss = self.run(passes, batch, real, last=last, extra_key=(accumulate, key, self.max_norm), updates=in_graph)
        if not in_graph and act is not None:
            act()
        return loss
