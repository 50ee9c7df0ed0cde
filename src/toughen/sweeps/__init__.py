"""Sweeps: one configuration in many settings, on one machine or many, each setting with several seeds."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .api import Sweep as Sweep
    from .api import sweep as sweep
    from .errors import SweepError as SweepError
    from .errors import SweepStopped as SweepStopped
    from .leaderboard import Row as Row

# Modules are nouns and none has the name of a function here: an imported module would hide it.
_HOMES = {"errors": ("SweepError", "SweepStopped"), "leaderboard": ("Row",), "api": ("Sweep", "sweep")}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazily(__name__, _HOME)
