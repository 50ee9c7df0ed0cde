"""A demonstration that runs offline in minutes: plain fine-tuning against two robust methods, on data of our own."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .show import demo as demo


def __getattr__(name: str) -> Any:
    if name == "demo":
        return importlib.import_module(".show", __name__).demo
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
