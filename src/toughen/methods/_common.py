"""What several methods share: how a ball and a start are written."""

from ..options import Schedule, Start
from ..schedules import scheduled
from ..search import Absolute, Ball, CustomInit, Init, NoProjection, Relative, ScheduledUnits, Units
from ..search.norms import Project

RELATIVE_PRESETS = ("recommended", "robust")  # presets whose lengths are shares of the embedding's


def make_projection(max_norm: float, p: float = 2) -> Project:
    return Ball(max_norm, p) if max_norm > 0 else NoProjection()


def make_init(given: Start | None, otherwise: Init) -> Init:
    return otherwise if given is None else CustomInit(given)


def make_units(preset: str, radius_schedule: Schedule) -> Units:
    """Shares of the embedding in our presets, the papers' absolute numbers in theirs."""
    base, factor = Relative() if preset in RELATIVE_PRESETS else Absolute(), scheduled(radius_schedule)
    return base if factor == 1.0 else ScheduledUnits(factor, base)
