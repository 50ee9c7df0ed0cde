"""Tables in Markdown."""

from collections.abc import Iterable


def line(cells: Iterable[object]) -> str:
    """Return one line of a table. A bar in a name or an error would end its cell, a line break the table."""
    return f"| {' | '.join(' '.join(str(cell).split()).replace('|', chr(92) + '|') for cell in cells)} |"
