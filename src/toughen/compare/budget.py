"""WHAT to compare: a divergence, and a price for what the adversary hides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import MethodError, StepError
from .divergence import Divergence, pointwise
from .model_outputs import ModelOutputs
from .rowwise import log_probabilities


@dataclass(frozen=True)
class BatchSumDivergence:
    """Half the symmetric KL, summed over everything and divided by the first dimension, as ASA's code has it.

    A head with one column is taken as one distribution over the batch there, whatever it predicts, and tokens count
    with their padding.
    """

    needs_clean: ClassVar[bool] = True

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        if clean is None:
            raise MethodError(f"{self!r} compares with a clean prediction, and this method makes none.")
        symmetric = pointwise("symmetric_kl", "nothing")
        pairs = zip(perturbed.predictions, clean.predictions, strict=True)
        logs = [[log_probabilities(_one_row(p.scores)) for p in pair] for pair in pairs]
        return torch.stack([0.5 * symmetric(b, c).sum() / b.shape[0] for b, c in logs]).sum()


def _one_row(scores: Tensor) -> Tensor:
    """A head's only column as one distribution; other scores as they are."""
    return scores.flatten() if scores.dim() == 2 and scores.shape[1] == 1 else scores


@dataclass(frozen=True)
class DivergenceWithBudget:
    """divergence + tau^2 * visible: an adversary that ascends it changes the prediction most and hides least (ASA).

    Each delta is one layer's count of visible pairs for every example: a share, whose mean over layers is taken, or
    with `total` a number, whose sum is.

    The price of a share is in the divergence's own units: nats, and for a regression the variance of its labels, so
    that labels from 0 to 100 are as those from 0 to 1. A `total` is priced as it stands.
    """

    acts_on: ClassVar[str] = "attention"

    divergence: Divergence | BatchSumDivergence
    tau: float
    total: bool = False

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise MethodError(f"tau={self.tau}: it must be 0 or above, or masking alone would reward the adversary.")

    needs_clean: ClassVar[bool] = True

    @property
    def needs_label_variance(self) -> bool:
        return not self.total

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        return self.components(perturbed, clean, deltas)[0]

    def components(
        self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        divergence = self.divergence(perturbed, clean, deltas)
        if divergence.requires_grad and not all(delta.requires_grad for delta in deltas):
            raise StepError(
                "The adversary's answers carry no gradient: checkpointed layers ran without one (use_reentrant=True). "
                "Use model.gradient_checkpointing_enable({'use_reentrant': False})."
            )
        layers = torch.stack([delta.mean() for delta in deltas])
        budget = layers.sum() if self.total else layers.mean()
        price = (
            self.tau**2 if perturbed.label_variance is None else self.tau**2 * perturbed.label_variance.to(budget.dtype)
        )
        return divergence + price * budget, {"divergence": divergence, "budget": budget}
