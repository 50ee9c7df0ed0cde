"""Runs: one configuration trained with one or several seeds, in a folder that holds all of it."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .api import Run as Run
    from .api import resume as resume
    from .api import train as train
    from .config import Config as Config
    from .errors import Diverged as Diverged
    from .errors import Interrupted as Interrupted
    from .errors import RunError as RunError
    from .folder import RunFolder as RunFolder
    from .folder import read as read
    from .predictor import Predictor as Predictor
    from .predictor import load as load
    from .results import Results as Results

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "api": "Run resume train",
        "config": "Config",
        "errors": "Diverged Interrupted RunError",
        "folder": "RunFolder read",
        "predictor": "Predictor load",
        "results": "Results",
    },
)
