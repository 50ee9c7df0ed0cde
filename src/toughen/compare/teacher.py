"""An exponential moving average of the weights, to compare with in place of the clean pass."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import MethodError
from ..rng import without_dropout
from ..sync import put_in
from ..tensors import approach, local


@dataclass(frozen=True)
class Teacher:
    """A mean of past weights: teacher <- decay * teacher + (1 - decay) * weights, after every update.

    SMART's momentum Bregman proximal point uses decay 0.99 for the first tenth of the updates and 0.999 after it
    (Jiang et al. 2020). `switch` is that share if below 1 - the number of updates is then asked of `attach` or taken
    from the Trainer - and a number of updates otherwise.
    """

    decay: float = 0.99
    later: float = 0.999
    switch: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.decay <= 1 and 0 <= self.later <= 1 and self.switch >= 0):
            raise MethodError(f"{self!r}: decays lie between 0 and 1, and the switch is not negative.")

    def decay_at(self, update: int, total: int | None) -> float:
        if self.switch < 1:
            if total is None:
                raise MethodError(
                    "The teacher changes its decay after a tenth of the training, and the number of updates is not "
                    "known. Give it: method.attach(model, total_steps=...), or set switch to a number of updates."
                )
            return self.decay if update < self.switch * total else self.later
        return self.decay if update < self.switch else self.later


class MeanWeights:
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
        return {str(i): local(mean).contiguous() for i, mean in enumerate(self.mean)}  # safetensors takes no other

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for i, mean in enumerate(self.mean):
            local(mean).copy_(state[str(i)])

    @torch.no_grad()
    def update(self, decay: float) -> None:
        now = [weight.to(mean.dtype) for weight, mean in zip(self.weights, self.mean, strict=True)]
        approach(self.mean, now, 1 - decay)

    @contextmanager
    def in_place(self) -> Generator[None]:
        """The model with the teacher's weights, without dropout and gradients. Only while no graph is alive."""
        with torch.no_grad(), without_dropout(self.model):
            values = [mean.to(weight.dtype) for weight, mean in zip(self.weights, self.mean, strict=True)]
            go_back = put_in(self.model, self.weights, values)
            try:
                yield
            finally:
                go_back()
