"""Libraries of the `tasks` extra, imported where they are used."""

from typing import Any

from ..errors import require


def extra(module: str) -> Any:
    """Import a module of the `tasks` extra, or say how to install it."""
    return require(module, "tasks")
