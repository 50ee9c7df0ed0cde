"""The teacher's weights: an exponential moving average of the model's."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..internal.distributed import swap_weights
from ..internal.foreach import lerp_all, local_shard
from ..internal.rng import without_dropout


class EmaWeights:
    """The teacher's weights at work. They take the place of the model's own for its pass, so that whatever wraps the
    model (DDP, FSDP2, torch.compile) serves the teacher as well.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        # Those trained now: weights frozen or thawed later keep their place beside their own mean.
        self.weights = [p for p in model.parameters() if p.requires_grad]
        # In float32: a thousandth of the way is less than half precision can tell apart.
        wide = [torch.promote_types(p.dtype, torch.float32) for p in self.weights]
        self.mean: list[Tensor] = [p.detach().to(dtype, copy=True) for p, dtype in zip(self.weights, wide, strict=True)]

    def state_dict(self) -> dict[str, Tensor]:
        return {
            str(i): local_shard(mean).contiguous() for i, mean in enumerate(self.mean)
        }  # safetensors takes no other

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for i, mean in enumerate(self.mean):
            local_shard(mean).copy_(state[str(i)])

    @torch.no_grad()
    def update(self, decay: float) -> None:
        now = [weight.to(mean.dtype) for weight, mean in zip(self.weights, self.mean, strict=True)]
        lerp_all(self.mean, now, 1 - decay)

    @contextmanager
    def applied(self) -> Generator[None]:
        """Return the model with the teacher's weights, without dropout and gradients. Only while no graph is alive."""
        with torch.no_grad(), without_dropout(self.model):
            values = [mean.to(weight.dtype) for weight, mean in zip(self.weights, self.mean, strict=True)]
            restore = swap_weights(self.model, self.weights, values)
            try:
                yield
            finally:
                restore()
