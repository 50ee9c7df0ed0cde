"""A robust step at little more than the price of its arithmetic: captured as a CUDA graph, without padding."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .captured import Captured as Captured
    from .compiling import compile_layers as compile_layers
    from .compiling import uncompile_layers as uncompile_layers
    from .loading import prefetch as prefetch

_HOME = {
    "Captured": "captured",
    "compile_layers": "compiling",
    "uncompile_layers": "compiling",
    "prefetch": "loading",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
