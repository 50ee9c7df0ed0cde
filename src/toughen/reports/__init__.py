"""Reports: one self-contained HTML page of one or several runs, and tables that compare them."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .comparison import Comparison as Comparison
    from .comparison import compare_runs as compare_runs
    from .folder import ReportError as ReportError
    from .folder import Run as Run
    from .folder import find_runs as find_runs
    from .folder import read_run as read_run
    from .page import report as report
    from .verdict import sentence as sentence

_HOME = {
    "Comparison": "comparison",
    "compare_runs": "comparison",
    "ReportError": "folder",
    "Run": "folder",
    "find_runs": "folder",
    "read_run": "folder",
    "report": "page",
    "sentence": "verdict",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazily(__name__, _HOME)
