"""A robust step at little more than the price of its arithmetic: captured as a CUDA graph, without padding."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from .batch_prefetch import prefetch as prefetch
    from .compile import compile_layers as compile_layers
    from .compile import uncompile_layers as uncompile_layers
    from .graph_cache import GraphCache as GraphCache
    from .optimizer import CapturedUpdate as CapturedUpdate

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "batch_prefetch": "prefetch",
        "compile": "compile_layers uncompile_layers",
        "graph_cache": "GraphCache",
        "optimizer": "CapturedUpdate",
    },
)
