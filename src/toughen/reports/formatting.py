"""Words of tables, on the page and in the terminal; numbers of the page's tables are `cell` in templates/parts.html."""

from collections.abc import Mapping


def shorten(text: str, longest: int) -> str:
    """Cut a text that would burst the page, and say how long it is."""
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} letters in all)"


def format_passes(cost: Mapping[str, float]) -> str:
    """Return the forward and backward passes of a step as text."""
    return f"{cost['forward']:g} + {cost['backward']:g}" if {"forward", "backward"} <= cost.keys() else "-"


def format_p(p: float | None, otherwise: str) -> str:
    """Return a p value as text, or what is said in its place."""
    return otherwise if p is None else ("p < 0.001" if p < 0.001 else f"p = {p:.3f}")
