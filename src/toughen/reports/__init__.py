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

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "comparison": "Comparison compare_runs",
        "folder": "ReportError Run find_runs read_run",
        "page": "report",
        "verdict": "sentence",
    },
)
