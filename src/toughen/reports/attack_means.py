"""The attacks on a run, one for each attack and arm: where several seeds were attacked, their mean."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..attacks.summary import NUMBERS, AttackSummary, Point, Score, TextScores

Arm = Literal["method", "baseline"]


@dataclass(frozen=True)
class Attack:
    """One attack on one arm of a run."""

    key: str
    """What is the same for every model under this attack: its name and split."""
    title: str
    metric: str
    arm: Arm
    sources: tuple[str, ...]
    """The files it was read from, without their endings."""
    rows: int
    clean: Score
    axis: str = ""
    points: tuple[Point, ...] = ()
    groups: Mapping[str, tuple[Point, ...]] = field(default_factory=dict[str, tuple[Point, ...]])
    attacked: TextScores | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> str:
        """Budgets and what else it ran under: models attacked under others are not to be held against each other."""
        return _terms(self.settings)

    @property
    def end(self) -> tuple[Score, str] | None:
        """The score at the full budget, and what that is."""
        if self.attacked and self.attacked.accuracy:
            return self.attacked.accuracy, ""
        if self.points:
            last = self.points[-1]
            return last.score, f"at {last.x:g}" if last.x else ""
        if self.groups:
            worst = min(self.groups, key=lambda name: self.groups[name][-1].score.value)
            return self.groups[worst][-1].score, f"worst: {worst}"
        return None


def mean_attacks(summaries: Mapping[str, AttackSummary]) -> list[Attack]:
    """Group the summaries, by the names of their files, by attack and arm, and average each group."""
    groups: dict[tuple[str, Arm], dict[str, AttackSummary]] = {}
    for name, summary in summaries.items():
        key = name.removesuffix(f"-{summary.label}") if summary.label else name
        arm = "baseline" if summary.label.startswith("baseline") else "method"
        groups.setdefault((key, arm), {})[name] = summary
    # By key, so that the run's own rows come before other splits and limited looks; "-" sorts before ".json".
    return [_mean(key, arm, groups[key, arm]) for key, arm in sorted(groups, key=lambda each: each[0])]


def _terms(settings: Mapping[str, Any]) -> str:
    """Return the settings without the random seed, to compare."""
    return json.dumps({k: value for k, value in settings.items() if k != "seed"}, sort_keys=True, default=str)


def _mean(key: str, arm: Arm, models: Mapping[str, AttackSummary]) -> Attack:
    # The best model is one of the seeds: with all of them there, it would count twice. Checkpoints are no seeds.
    alone = {name: each for name, each in models.items() if not each.label}
    seeds = {name: each for name, each in models.items() if each.label and "checkpoint" not in each.label}
    used = seeds or alone or dict(list(models.items())[:1])
    summaries = list(used.values())
    first, terms = summaries[0], {_terms(each.settings) for each in summaries}
    notes = [*first.notes, *([f"{key}: a mean over seeds under different settings"] * (len(terms) > 1))]
    if any(_terms(each.settings) not in terms for each in alone.values()):
        notes.append(f"{key}: all seeds are shown; the best model alone under other settings is not")
    groups: dict[str, list[Sequence[Point]]] = {}
    for group in (group for each in summaries for group in each.groups or ()):
        groups.setdefault(group.name, []).append(group.points)
    curve = first.curve
    return Attack(
        key=key,
        title=first.title,
        metric=first.metric,
        arm=arm,
        sources=tuple(used),
        rows=first.rows,
        clean=mean_interval(each.clean for each in summaries),
        axis=", ".join(filter(None, (curve.axis, curve.unit))) if curve else "strength",
        points=_mean_points([each.curve.points for each in summaries if each.curve]),
        groups={name: points for name, each in groups.items() if (points := _mean_points(each))},
        attacked=_mean_text_scores([each.attacked for each in summaries if each.attacked]),
        settings=first.settings,
        notes=tuple(notes),
    )


def _mean_points(curves: Sequence[Sequence[Point]]) -> tuple[Point, ...]:
    """Return the mean over models at every strength that all of them have."""
    by_x = [{point.x: point for point in points} for points in curves]
    shared = sorted(set.intersection(*map(set, by_x))) if by_x else []
    means: list[Point] = []
    for x in shared:
        noise = [score for points in by_x if (score := points[x].noise) is not None]
        means.append(Point(x, mean_interval(p[x].score for p in by_x), mean_interval(noise) if noise else None))
    return tuple(means)


def _mean_text_scores(scores: Sequence[TextScores]) -> TextScores | None:
    if not scores:
        return None
    # Where every row was wrong before, none was attacked, and a success rate has no value.
    known = ([s for s in each if s] for each in zip(*((s.accuracy, s.success_rate) for s in scores), strict=True))
    accuracy, rate = (mean_interval(each) if each else None for each in known)
    numbers = {name: [n for each in scores if (n := getattr(each, name)) is not None] for name in NUMBERS}
    means = {name: sum(each) / len(each) if each else None for name, each in numbers.items()}
    return TextScores(accuracy, rate, **means, examples=None)


def mean_interval(scores: Iterable[Score]) -> Score:
    """Return means of values and of both ends: the interval of a typical seed, not of the mean over seeds."""
    return Score(*(sum(column) / len(column) for column in zip(*scores, strict=True)))
