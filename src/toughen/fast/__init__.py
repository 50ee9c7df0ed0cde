"""A robust step at little more than the price of its arithmetic: captured as a CUDA graph, without padding."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .captured import Captured as Captured
    from .compiling import compile_layers as compile_layers
    from .compiling import uncompile_layers as uncompile_layers
    from .loading import prefetch as prefetch
    from .update import CapturedUpdate as CapturedUpdate

_HOME = {
    "Captured": "captured",
    "CapturedUpdate": "update",
    "compile_layers": "compiling",
    "uncompile_layers": "compiling",
    "prefetch": "loading",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazily(__name__, _HOME)
