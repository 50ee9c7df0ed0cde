"""Libraries of the `tasks` extra, imported where they are used."""

import importlib
from typing import Any


def extra(module: str) -> Any:
    """Import a module of the `tasks` extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        package = {"sklearn": "scikit-learn"}.get(module.partition(".")[0], module.partition(".")[0])
        raise ImportError(f'{package} is needed for this: pip install "toughen[tasks]"') from problem
