"""A demonstration that runs offline in minutes: plain fine-tuning against two robust methods, on data of our own."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .show import demo as demo

__getattr__, __dir__ = lazily(__name__, {"demo": "show"})
