"""Reports: one self-contained HTML page of one or several runs, and tables that compare them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import Comparison as Comparison
    from .comparison import compare_runs as compare_runs
    from .folder import ReportError as ReportError
    from .folder import Run as Run
    from .folder import find_runs as find_runs
    from .folder import read_run as read_run
    from .page import report as report

_HOME = {
    "Comparison": "comparison",
    "compare_runs": "comparison",
    "ReportError": "folder",
    "Run": "folder",
    "find_runs": "folder",
    "read_run": "folder",
    "report": "page",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
