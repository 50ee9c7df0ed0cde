"""Tables in Markdown."""

from collections.abc import Iterable


def line(cells: Iterable[object]) -> str:
    """One line of a table. Names and errors come from outside: a bar would end their cell, a line break the table."""
    return f"| {' | '.join(' '.join(str(cell).split()).replace('|', chr(92) + '|') for cell in cells)} |"
