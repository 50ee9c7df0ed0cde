"""The rule that chooses: the most robust of those that are not below plain training beyond noise."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..sweeps.definition import Settings

TIE = 0.0005  # scores that close are equal, and the cheaper one is taken


@dataclass(frozen=True)
class Change:
    """A difference from plain training on the same rows, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Candidate:
    """A trained setting and what it reached on the selection rows; plain training has no changes."""

    settings: Settings
    clean: float
    seconds: float
    clean_change: Change | None = None
    robust: float | None = None
    robust_change: Change | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose(plain: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Return the choice; plain training if nothing is better beyond noise.

    Without a threat (`robust` is None) the best clean score wins; with one the most robust of those whose clean score
    is not below plain's beyond noise. Of equals the cheaper wins.
    """
    if plain.robust is None:
        able = [each for each in others if each.clean_change is not None and each.clean_change.low > 0]
        return _best([(each.clean, each) for each in able]) or plain
    kept = [each for each in others if each.clean_change is None or each.clean_change.high >= 0]
    able = [each for each in kept if each.robust_change is not None and each.robust_change.low > 0]
    return _best([(each.robust or 0.0, each) for each in able]) or plain


def _best(scored: Sequence[tuple[float, Candidate]]) -> Candidate | None:
    if not scored:
        return None
    top = max(score for score, _ in scored)
    return min((each for score, each in scored if score >= top - TIE), key=lambda each: each.seconds)
