"""Numbers and words of tables, on the page and in the terminal."""

from collections.abc import Mapping
from typing import Any


def format_passes(cost: Mapping[str, float]) -> str:
    """Forward and backward passes of a step."""
    return f"{cost['forward']:g} + {cost['backward']:g}" if {"forward", "backward"} <= cost.keys() else "-"


def format_p(p: float | None, otherwise: str) -> str:
    """A p value, or what is said in its place."""
    return otherwise if p is None else ("p < 0.001" if p < 0.001 else f"p = {p:.3f}")


def number(value: float | None, form: str = "{:.4f}") -> dict[str, Any]:
    """A cell: how it is shown, and what it is sorted by."""
    return {"text": "-" if value is None else form.format(value), "sort": "" if value is None else f"{value:.6g}"}
