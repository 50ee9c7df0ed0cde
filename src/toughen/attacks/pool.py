"""Many searches at once: the questions of all of them are one wave through the model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .attempt import Answer, Attempt, Scores, Search, Slope
from .victim import MARGIN, Judge, Victim
from .words import Row

AT_ONCE = 512

Slopes = Callable[[Sequence[Row], Sequence[int]], list[Any]]


def run_all(
    victim: Victim, searches: Iterable[tuple[Attempt, Search]], slopes: Slopes | None = None, at_once: int = AT_ONCE
) -> Iterator[list[Attempt]]:
    """Drive the searches to their ends; yields after every wave the attempts that ended in it.

    An ended search makes room for the next one, so that waves stay large until the last.
    """
    waiting = iter(searches)
    judge = Judge(victim.task)
    active: list[tuple[Attempt, Search, Scores | Slope]] = []
    while True:
        ended: list[Attempt] = []
        while len(active) < at_once and (new := next(waiting, None)) is not None:
            attempt, search = new
            _advance(attempt, search, None, active, ended)
        if not active:
            if ended:
                yield ended
                continue
            return
        wave, active = active, []
        told = _answers(victim, judge, wave, slopes)
        for (attempt, search, _), answer in zip(wave, told, strict=True):
            _advance(attempt, search, answer, active, ended)
        yield ended


def _advance(
    attempt: Attempt,
    search: Search,
    answer: Any,
    active: list[tuple[Attempt, Search, Scores | Slope]],
    ended: list[Attempt],
) -> None:
    try:
        active.append((attempt, search, search.send(answer)))
    except StopIteration:
        ended.append(attempt)


def _answers(
    victim: Victim, judge: Judge, wave: Sequence[tuple[Attempt, Search, Scores | Slope]], slopes: Slopes | None
) -> list[Any]:
    asked = [(a, ask.rows) for a, _, ask in wave if isinstance(ask, Scores)]
    flat = [(row, attempt.label) for attempt, rows in asked for row in rows]
    scored = iter(_judged(victim, judge, [row for row, _ in flat], [label for _, label in flat]))
    steep = [(ask.row, a.label) for a, _, ask in wave if isinstance(ask, Slope)]
    assert slopes is not None or not steep
    found = iter(slopes([row for row, _ in steep], [label for _, label in steep]) if slopes and steep else ())
    return [[next(scored) for _ in ask.rows] if isinstance(ask, Scores) else next(found) for _, _, ask in wave]


def _judged(victim: Victim, judge: Judge, rows: Sequence[Row], labels: Sequence[int]) -> list[Answer]:
    """Answers of which none says "fooled" that float32 does not confirm."""
    if not rows:
        return []
    logits = victim.scores(rows)
    leads = [judge.margin(one, label) for one, label in zip(logits, labels, strict=True)]
    if victim.half and (near := [place for place, lead in enumerate(leads) if lead > 0]):
        for place, exact in zip(near, victim.exact([rows[place] for place in near]), strict=True):
            leads[place] = judge.margin(exact, labels[place])
    return [
        Answer(judge.chance(one, label), lead > MARGIN) for one, label, lead in zip(logits, labels, leads, strict=True)
    ]
