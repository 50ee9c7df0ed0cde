"""WHAT to compare: the task's own loss, alone or with more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from ..errors import MethodError, StepError
from .divergence import Divergence
from .model_outputs import ModelOutputs
from .rowwise import to_float32


def loss_of(outcome: ModelOutputs) -> Tensor:
    if outcome.loss is None:
        raise StepError(
            "The model returned no loss, so the batch has no labels, and this method needs them. "
            "Add 'labels' to the batch, or use toughen.vat() for unlabelled ones."
        )
    return outcome.loss


@dataclass(frozen=True)
class TaskLoss:
    """The loss of the perturbed pass."""

    needs_predictions: ClassVar[bool] = False

    needs_clean: ClassVar[bool] = False

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        return loss_of(perturbed)


@dataclass(frozen=True)
class TaskLossAndDivergence:
    """The mean of both passes' task losses in place of the clean one alone, and a divergence (R-Drop).

    Beside a loss that is not the clean one (`replace_clean_loss` False) there is nothing to replace: it is the
    divergence alone.
    """

    divergence: Divergence
    weight: float
    replace_clean_loss: bool = field(default=True, repr=False)  # a sum's to say, no setting of the method

    needs_clean: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise MethodError(
                f"TaskLossAndDivergence(weight={self.weight}): a regulariser's weight cannot be negative."
            )

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        term = self.weight * self.divergence(perturbed, clean, deltas)
        return (
            term if clean is None or not self.replace_clean_loss else term + 0.5 * (loss_of(perturbed) - loss_of(clean))
        )


@dataclass(frozen=True)
class TaskLossMinusCosine:
    """The task loss less `temperature` times the cosine of perturbed and clean class-token features (CreAT)."""

    needs_predictions: ClassVar[bool] = False

    temperature: float = 1.0

    needs_clean: ClassVar[bool] = True
    needs_features: ClassVar[bool] = True

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        if clean is None or perturbed.features is None or clean.features is None:
            raise StepError("CreAT compares the features of a perturbed and a clean pass, and one of them is missing.")
        likeness = F.cosine_similarity(to_float32(perturbed.features), to_float32(clean.features), dim=-1).mean()
        return loss_of(perturbed) - self.temperature * likeness
