"""Tasks and their data: names or own files in; the right columns, head, metric and batches out."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .batching import Collate as Collate
    from .batching import LengthBucketed as LengthBucketed
    from .batching import LengthGrouped as LengthGrouped
    from .batching import collator as collator
    from .batching import lengths as lengths
    from .bootstrap import Interval as Interval
    from .bootstrap import difference as difference
    from .bootstrap import interval as interval
    from .calibration import calibration_error as calibration_error
    from .calibration import reliability as reliability
    from .data_report import DataReport as DataReport
    from .download import fetch as fetch
    from .download import verify as verify
    from .glue_zip import submission as submission
    from .loader import load as load
    from .models import auto_class as auto_class
    from .models import longest_input as longest_input
    from .models import model_kwargs as model_kwargs
    from .models import model_task as model_task
    from .registry import available as available
    from .registry import register as register
    from .registry import task as task
    from .scoring import Metrics as Metrics
    from .scoring import answers_of as answers_of
    from .scoring import compute_metrics as compute_metrics
    from .scoring import metrics as metrics
    from .spec import Data as Data
    from .spec import DataError as DataError
    from .spec import Hub as Hub
    from .spec import Task as Task
    from .tokenising import prepare as prepare

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "batching": "Collate LengthBucketed LengthGrouped collator lengths",
        "bootstrap": "Interval difference interval",
        "calibration": "calibration_error reliability",
        "data_report": "DataReport",
        "download": "fetch verify",
        "glue_zip": "submission",
        "loader": "load",
        "models": "auto_class longest_input model_kwargs model_task",
        "registry": "available register task",
        "scoring": "Metrics answers_of compute_metrics metrics",
        "spec": "Data DataError Hub Task",
        "tokenising": "prepare",
    },
)
