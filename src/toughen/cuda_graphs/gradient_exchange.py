"""Gradients of DistributedDataParallel, averaged once an update and after the step instead of in its midst."""

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ..combine.base import BackwardPass
from ..errors import StepError
from ..internal.foreach import copy_all
from ..internal.rng import has_batch_norm


class GradientExchange:
    """Averages the gradients of a model's processes; the passes before ran on `model.module`, which exchanges none.

    In its first update the processes agree which weights get gradients. One that gets none in a process counts as zero
    there; one that gets none in any keeps none.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        self.module: nn.Module = model.module
        self._group: Any = model.process_group
        self._used: set[nn.Parameter] | None = None

    def __call__(self) -> None:
        named = [(name, weight) for name, weight in self.module.named_parameters() if weight.requires_grad]
        if self._used is None:
            found = torch.tensor([weight.grad is not None for _, weight in named], dtype=torch.int32)
            found = found.to(named[0][1].device)
            distributed.all_reduce(found, distributed.ReduceOp.MAX, self._group)
            self._used = {weight for (_, weight), some in zip(named, found.tolist(), strict=True) if some}
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for name, weight in named:
            if weight not in self._used:
                if weight.grad is not None:  # the others do not know of it
                    raise StepError(f"{name} got its first gradient after the first update; train with fast=False.")
                continue
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            kinds.setdefault((weight.grad.dtype, weight.grad.device), []).append(weight.grad)
        for grads in kinds.values():
            whole = torch.cat([grad.flatten() for grad in grads])
            distributed.all_reduce(whole, group=self._group)
            whole /= distributed.get_world_size(self._group)
            parts = whole.split([grad.numel() for grad in grads])
            copy_all(grads, [part.view_as(grad) for part, grad in zip(parts, grads, strict=True)])


def exchange_of(model: nn.Module, backward_passes: tuple[BackwardPass, ...]) -> GradientExchange | None:
    """Return the exchange for a model whose gradients may wait for the end of the step, or None.

    Not where weights move or perturbations are made by averaged gradients between passes (SAM, FreeAT), nor where DDP
    does more than to average: a hook for the exchange, weights left out, running statistics.
    """
    if not isinstance(model, DistributedDataParallel):
        return None
    inside = any(each.sync_gradients or each.optimizer_step for each in backward_passes[:-1])
    own: Any = model
    more = own._comm_hooks or own.parameters_to_ignore or has_batch_norm(model)
    return None if inside or more else GradientExchange(model)
