"""Sweeps: one configuration in many settings, on one machine or many, each setting with several seeds."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .api import Sweep as Sweep
    from .api import sweep as sweep
    from .errors import SweepError as SweepError
    from .errors import SweepStopped as SweepStopped
    from .leaderboard import Row as Row

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "api": "Sweep sweep",
        "errors": "SweepError SweepStopped",
        "leaderboard": "Row",
    },
)
