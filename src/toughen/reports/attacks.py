"""The attacks on runs, means where several seeds were attacked, and the robustness section of a page."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..attacks.summary import NUMBERS, AttackSummary, Point, Score, TextScores
from . import charts
from .drawing import Drawing
from .formatting import lower_is_better

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


_LINES, _BARS = 8, 4
Named = Sequence[tuple[str, Attack]]  # the model's name on the page, and one attack on it


@dataclass(frozen=True)
class GroupTable:
    """The scores under each kind of noise: rows of (model, kind, scores)."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[float | None]]]
    several: bool
    """Whether there are several models."""


@dataclass(frozen=True)
class Robustness:
    """Everything about the attacks, as `robust.html` shows it."""

    rows: Sequence[tuple[str, str, Attack]]
    """The titles of attack and model, and the attack."""
    drawings: Sequence[Drawing]
    groups: Sequence[GroupTable]
    settings: Mapping[str, str]
    notes: Sequence[str]
    averaged: int
    """The number of seeds that the longest mean is over."""


def robustness(attacks: Named) -> Robustness | None:
    """Put the attacks on these models side by side; None if there are none."""
    if not attacks:
        return None
    titles = {attack.key: attack.title for _, attack in attacks}
    often = Counter(titles.values())
    titles = {key: f"{title}{_rows(key)}" if often[title] > 1 else title for key, title in titles.items()}
    by_key = {key: [(name, attack) for name, attack in attacks if attack.key == key] for key in titles}
    unlike = [titles[key] for key, each in by_key.items() if len({attack.terms for _, attack in each}) > 1]
    notes = [f"{each}: not every model was attacked with these settings; run it again for all." for each in unlike]
    return Robustness(
        rows=[(titles[key], name, attack) for key, each in by_key.items() for name, attack in each],
        drawings=[drawing for key, each in by_key.items() for drawing in _drawings(titles[key], each)],
        groups=[_group_table(titles[key], each) for key, each in by_key.items() if any(a.groups for _, a in each)],
        settings={titles[key]: _settings(each[0][1]) for key, each in by_key.items()},
        notes=[*notes, *dict.fromkeys(note for _, attack in attacks for note in attack.notes)],
        averaged=max(len(attack.sources) for _, attack in attacks),
    )


def _rows(key: str) -> str:
    """Return the rows of an attack that was made on several, as its key has them after its name."""
    rows = key.partition("-")[2].replace("-limit-", ", limit ")
    return f" ({rows})" if rows else ""


def _drawings(title: str, attacks: Named) -> list[Drawing]:
    drawings: list[Drawing] = []
    if curved := [(name, attack) for name, attack in attacks if len(attack.points) > 1]:
        drawings.append(_curve(title, curved))
    if grouped := [(name, attack) for name, attack in attacks if attack.groups]:
        kinds = list(dict.fromkeys(kind for _, attack in grouped for kind in attack.groups))
        scores = {
            kind: {name: attack.groups[kind][-1].score for name, attack in grouped[:_BARS] if kind in attack.groups}
            for kind in kinds[:12]
        }
        strengths = {points[-1].x for _, attack in grouped for points in attack.groups.values()}
        note = "At the highest strength of each kind." if strengths != {0} else ""
        note += f" The first {_BARS} of {len(grouped)} models." if len(grouped) > _BARS else ""
        drawings.append(charts.bars(title, scores, y=grouped[0][1].metric, note=note, points=_in_points(grouped)))
    return drawings


def _curve(title: str, curved: Named) -> Drawing:
    """Draw adversarial lines beside random noise of the same size; the gap between both is the adversary's work."""
    bands: dict[str, charts.Band] = {}
    with_noise = len(curved) <= 3 and any(point.noise for _, attack in curved for point in attack.points)
    for colour, (name, attack) in enumerate(curved[:_LINES]):
        points = attack.points
        if points[0].x:  # many begin at strength 0 by themselves
            points = (Point(0.0, attack.clean, attack.clean if points[0].noise else None), *points)
        attacked = [(point.x, point.score) for point in points]
        bands[f"{name}, attacked" if with_noise else name] = charts.Band(attacked, colour=colour)
        noisy = [(point.x, point.noise) for point in points if point.noise]
        if with_noise and len(noisy) > 1:
            bands[f"{name}, random noise"] = charts.Band(noisy, dashed=True, colour=colour)
    note = "Dashed: random noise of the same size; the gap to it is the adversary's work. " if with_noise else ""
    if len(curved) > _LINES:
        note += f"The first {_LINES} of {len(curved)} models. "
    first = curved[0][1]
    note += "Shaded: 95 % over rows."
    return charts.curves(title, bands, x=first.axis, y=first.metric, note=note, points=_in_points(curved))


def _in_points(attacks: Named) -> bool:
    return all(not lower_is_better(attack.metric) for _, attack in attacks)


def _group_table(title: str, attacks: Named) -> GroupTable:
    strengths = sorted({point.x for _, attack in attacks for points in attack.groups.values() for point in points})
    rows: list[tuple[str, str, list[float | None]]] = []
    for name, attack in attacks:
        for kind, points in attack.groups.items():
            scores = {point.x: point.score.value for point in points}
            rows.append((name, kind, [scores.get(x) for x in strengths]))
    heads = [f"at {x:g}" for x in strengths] if len(strengths) > 1 else [attacks[0][1].metric]
    return GroupTable(title, heads, rows, len(attacks) > 1)


def _settings(attack: Attack) -> str:
    settings = {key: value for key, value in attack.settings.items() if value not in (None, [], {}, "")}
    return ", ".join(f"{key} {' '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in settings.items())
