"""What a combine is: HOW the comparison enters the update."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ..compare.model_outputs import ModelOutputs
from ..schedules import TrainingProgress
from ..sites.base import Detach


@dataclass(frozen=True, slots=True)
class BackwardPass:
    """One coming backward pass, as its driver must know it beforehand."""

    sync_gradients: bool  # gradients are exchanged between processes after it
    optimizer_step: bool = False  # the optimizer steps after it, within the method
    counts: bool = True  # its loss belongs to the objective that is reported


class StepContext(Protocol):
    """One micro-batch, as a Combine sees it."""

    @property
    def is_last(self) -> bool: ...  # whether it closes its accumulation window

    @property
    def progress(self) -> TrainingProgress: ...  # how far the training is

    @property
    def accumulation_window(self) -> Sequence["StepContext"]: ...  # its micro-batches so far, this one included

    def clean(self) -> ModelOutputs: ...  # the unperturbed pass, made once
    def forward_again(self) -> ModelOutputs: ...  # one more unperturbed pass
    def task_loss(self) -> Tensor: ...  # the clean pass's loss, or an error that asks for labels
    def run_search(self) -> None: ...  # run the search
    def regularizer(self) -> Tensor: ...  # a perturbed pass, compared
    def ascend(self) -> None: ...  # one search step from the gradients the last backward pass left
    def perturb_weights(self, keep_gradient: bool) -> Detach: ...  # perturb the weights; returns the way back


class Combine(Protocol):
    """HOW the comparison enters the update: losses, each to be back-propagated before the next is asked for."""

    def backward_passes(self, is_last: bool, window_size: int) -> tuple[BackwardPass, ...]: ...

    def __call__(self, batch: StepContext) -> Iterator[Tensor]: ...
