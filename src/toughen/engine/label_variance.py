"""How far the labels of a regression lie apart: the unit in which a price can be set against a squared error."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..compare.model_outputs import ModelOutputs


class RunningLabelVariance:
    """The variance of all labels seen so far; of one batch alone it would be a guess. Columns have their own means."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None  # (3, columns): rows, labels, squares

    def annotate(self, outcome: ModelOutputs, labels: Any) -> ModelOutputs:
        """Return a regression's outcome with the running label variance, updated with `labels`; any other unchanged."""
        real = isinstance(labels, Tensor) and all(each.kind == "values" for each in outcome.predictions)
        return replace(outcome, spread=self.update(labels)) if real else outcome

    def update(self, labels: Tensor) -> Tensor:
        """Return the variance with these labels; the mean of it where there are several columns."""
        wide = torch.float32 if labels.device.type == "mps" else torch.float64
        values = labels.detach().reshape(len(labels), -1).to(wide)
        seen = torch.stack([torch.ones_like(values), values, values.square()]).sum(1)
        if self.sums is None:
            self.sums = seen
        else:
            self.sums = self.sums.to(seen.device)
            self.sums += seen  # in place: a CUDA graph goes on with the memory it knows
        rows, total, squares = self.sums
        return (squares / rows - (total / rows).square()).clamp(min=0).mean()

    def state_dict(self) -> dict[str, Tensor]:
        return {} if self.sums is None else {"sums": self.sums.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if "sums" not in state:
            self.sums = None
        elif self.sums is None:
            self.sums = state["sums"].clone()
        else:
            self.sums.copy_(state["sums"])
