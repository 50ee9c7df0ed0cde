"""Columns that cut rows into slices worth a look: negation, and how much of one text stands in the other."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..tasks.spec import Task

_NEGATION = re.compile(r"\b(no|not|never|none|nobody|nothing|nowhere|neither|nor|cannot|without)\b|n't\b|n’t\b", re.I)
_WORD = re.compile(r"\w+")
_OVERLAPS = ((1 / 3, "under a third"), (2 / 3, "a third to two thirds"), (1.01, "over two thirds"))


def text_slices(task: Task, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Slice by slice the group of every row: negation where there are texts, overlap where there are two."""
    columns = [column for column in task.columns if rows and isinstance(rows[0].get(column), str)]
    if not columns:
        return {}
    joined = [" ".join(str(row[column]) for column in columns) for row in rows]
    found = {"negation": ["with" if _NEGATION.search(text) else "without" for text in joined]}
    if task.kind == "pair" and len(columns) == 2:
        found["words of the second text in the first"] = [
            _overlap(*(str(row[each]) for each in columns)) for row in rows
        ]
    return found


def _overlap(first: str, second: str) -> str:
    known, asked = set(_WORD.findall(first.lower())), _WORD.findall(second.lower())
    share = sum(word in known for word in asked) / max(1, len(asked))
    return next(name for edge, name in _OVERLAPS if share < edge)
