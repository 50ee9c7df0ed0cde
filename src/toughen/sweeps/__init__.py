"""Sweeps: one configuration in many settings, on one machine or many, each setting with several seeds."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import SweepError as SweepError
    from .errors import SweepStopped as SweepStopped
    from .leaderboard import Row as Row
    from .running import Sweep as Sweep
    from .running import sweep as sweep

# Modules are nouns and none has the name of a function here: an imported module would hide it.
_HOMES = {"errors": ("SweepError", "SweepStopped"), "leaderboard": ("Row",), "running": ("Sweep", "sweep")}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `import toughen.sweeps` itself costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
