"""What several methods share: how a ball and a start are written."""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from ..schedules import Scheduled
from ..search import Absolute, Ball, CustomInit, Init, NoProjection, Relative, ScheduledUnits, Units
from ..search.norms import Project
from ..sites.base import Activation

Start: TypeAlias = Callable[[Activation], Tensor]
"""A function that gives the starting perturbation of a view, to take the random draw's place."""


OURS = ("recommended", "robust")  # presets whose lengths are shares of the embedding's


def ball(max_norm: float, p: float = 2) -> Project:
    return Ball(max_norm, p) if max_norm > 0 else NoProjection()


def start(given: Start | None, otherwise: Init) -> Init:
    return otherwise if given is None else CustomInit(given)


def units(preset: str, growth: Scheduled) -> Units:
    """Shares of the embedding in our presets, the papers' absolute numbers in theirs."""
    base = Relative() if preset in OURS else Absolute()
    return base if growth == 1.0 else ScheduledUnits(growth, base)
