"""Words and numbers of tables, on the page and in the terminal."""

import math
import re
from collections.abc import Mapping

LOWER = ("loss", "mse")  # metrics of which less is better; all others are shares, shown in points of 100
_FOLDERS = re.compile(r"(?<![\w.~:/\\-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\",:;<>|]+[/\\])+(?=[^\s/\\])")


def lower_is_better(metric: str) -> bool:
    """Return whether less is better of a metric, also of another set: `test_loss`, `mse_mismatched`."""
    return any(part in LOWER for part in metric.split("_"))


def format_score(value: float | None, metric: str = "", error: float | None = None, sign: str = "") -> str:
    """Return a score with the digits that its error allows: 0.8625 with 0.0177 is 86.3 ± 1.8.

    Args:
        value: The score, or a difference of scores.
        metric: Its metric; losses are not shares, and stay as they are.
        error: Its standard deviation, or half of its interval.
        sign: "+" shows the sign of a difference.
    """
    if value is None or math.isnan(value):
        return "-"
    if lower_is_better(metric):
        return f"{value:{sign}.4g}" + (f" ± {error:.2g}" if error else "")
    digits = digits_of(error)
    scale = 100 * 10**digits
    rounded = math.floor(value * scale + 0.5) / 10**digits  # 86.25 is 86.3, which Python's own rounding says not
    text = f"{rounded + 0.0:{sign}.{digits}f}"  # plus 0: there is no -0.0
    return text if error is None else f"{text} ± {100 * error:.{digits}f}"


def format_interval(low: float, high: float, metric: str = "", sign: str = "") -> str:
    """Return the ends of an interval, with the digits that its width allows."""
    half = (high - low) / 2
    ends = [
        format_score(end, metric, sign=sign) if lower_is_better(metric) else _end(end, half, sign)
        for end in (low, high)
    ]
    return " to ".join(ends)


def _end(end: float, half: float, sign: str) -> str:
    return format_score(end, error=half, sign=sign).partition(" ")[0]


def digits_of(error: float | None) -> int:
    """Return the decimals of a score in points: two digits of its error, at most two decimals; one if it has none."""
    if not error or not math.isfinite(error):
        return 1
    return min(2, max(0, 1 - math.floor(math.log10(100 * error))))


def hide_folders(text: object) -> str:
    """Return a text with absolute paths as their last part: a page that is passed on says nothing of the machine."""
    return _FOLDERS.sub("", str(text))


def shorten(text: str, longest: int) -> str:
    """Cut a text that would burst the page, and say how long it is."""
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} letters in all)"


def format_passes(cost: Mapping[str, float]) -> str:
    """Return the forward and backward passes of a step as text."""
    return f"{cost['forward']:g} + {cost['backward']:g}" if {"forward", "backward"} <= cost.keys() else "-"


def format_p(p: float | None, otherwise: str) -> str:
    """Return a p value as text, or what is said in its place."""
    return otherwise if p is None else ("p < 0.001" if p < 0.001 else f"p = {p:.3f}")
