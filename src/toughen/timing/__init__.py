"""How long a step takes and what memory, for every method, beside a plain step."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measuring import Row as Row
    from .measuring import bench as bench
    from .measuring import markdown as markdown

_HOME = {"Row": "measuring", "bench": "measuring", "markdown": "measuring"}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
