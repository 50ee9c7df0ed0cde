"""Runs: one configuration trained with one or several seeds, in a folder that holds all of it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Config as Config
    from .errors import Diverged as Diverged
    from .errors import Interrupted as Interrupted
    from .errors import RunError as RunError
    from .folder import Results as Results
    from .folder import read as read
    from .predictor import Predictor as Predictor
    from .predictor import load as load
    from .twin import Run as Run
    from .twin import resume as resume
    from .twin import train as train

# Modules are nouns and none has the name of a function here: an imported module would hide it.
_HOMES = {
    "config": ("Config",),
    "errors": ("Diverged", "Interrupted", "RunError"),
    "folder": ("Results", "read"),
    "predictor": ("Predictor", "load"),
    "twin": ("Run", "resume", "train"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `import toughen.runs` itself costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
