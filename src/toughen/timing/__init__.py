"""Measure time and memory of a training step of each method, beside a plain step."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .measuring import Row as Row
    from .measuring import bench as bench
    from .measuring import markdown as markdown

_HOME = {"Row": "measuring", "bench": "measuring", "markdown": "measuring"}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazily(__name__, _HOME)
