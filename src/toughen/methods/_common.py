"""What several methods share: how their options become the start, the units and the steps of a search."""

from ..options import AscentOptions, Schedule, Start
from ..schedules import scheduled
from ..search import Absolute, Ascent, Ball, CustomInit, Init, NoProjection, Normalized, Relative, ScheduledUnits, Units
from ..search.norms import Direction, Project

RELATIVE_PRESETS = ("recommended", "robust")  # their lengths are shares of the embedding's


def make_init(given: Start | None, otherwise: Init) -> Init:
    return otherwise if given is None else CustomInit(given)


def make_units(preset: str, radius_schedule: Schedule = 1.0) -> Units:
    """Shares of the embedding in our presets, the papers' absolute numbers in theirs."""
    base, factor = Relative() if preset in RELATIVE_PRESETS else Absolute(), scheduled(radius_schedule)
    return base if factor == 1.0 else ScheduledUnits(factor, base)


def make_ascent(
    options: AscentOptions, noise: Init, direction: Direction | None = None, project: Project | None = None
) -> Ascent:
    """Make the ascent of these options: by default l2 steps of a whole text, in a ball of the direction's norm."""
    direction = direction or Normalized()
    if project is None:
        project = Ball(options.max_norm, direction.p) if options.max_norm > 0 else NoProjection()
    return Ascent(
        step_size=options.step_size,
        steps=options.steps,
        init=make_init(options.init, noise),
        direction=direction,
        project=project,
        units=make_units(getattr(options, "preset", "recommended"), options.radius_schedule),
    )
