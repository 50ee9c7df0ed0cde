"""Types from annotations in source text, without importing what they name."""

import re
from collections.abc import Mapping
from typing import Any, Literal

PLAIN: Mapping[str, Any] = {
    "Literal": Literal,
    "Any": Any,
    "Dropout": Literal["shared", "fresh", "off"],
    "Sequence": list,
    **{kind.__name__: kind for kind in (float, int, str, bool, list, dict)},
}
CONSTANTS = {"None", "True", "False"}


def type_of(annotation: str) -> Any:
    """The part of an annotation that a config can write: `float | Ramp | None` is `float | None`; None for nothing."""
    text = re.sub(
        r"Optional\[(.*)\]$",
        r"\1 | None",
        annotation.strip("\"'").replace("typing.", "").replace("collections.abc.", ""),
    )
    parts = [part for part in re.split(r" \| (?![^\[]*\])", text) if _is_plain(part)]
    if not set(parts) - {"None"}:
        return None
    return eval(" | ".join(parts), {"__builtins__": {}}, dict(PLAIN))  # names of PLAIN and nothing else


def _is_plain(part: str) -> bool:
    if part.startswith("Literal["):
        return re.fullmatch(r"Literal\[[\w'\", .+-]+\]", part) is not None
    return set(re.findall(r"[A-Za-z_]\w*", part)) <= {*PLAIN, *CONSTANTS} and "(" not in part
