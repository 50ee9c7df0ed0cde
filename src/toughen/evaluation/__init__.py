"""How good a trained model is: metrics with intervals, calibration, confusion, slices; on any split or file."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clean import evaluate as evaluate
    from .measures import Evaluation as Evaluation
    from .measures import measure as measure
    from .outputs import Outputs as Outputs
    from .outputs import outputs_of as outputs_of
    from .subjects import Subject as Subject
    from .subjects import subjects_of as subjects_of

_HOME = {
    "evaluate": "clean",
    "Evaluation": "measures",
    "measure": "measures",
    "Outputs": "outputs",
    "outputs_of": "outputs",
    "Subject": "subjects",
    "subjects_of": "subjects",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
