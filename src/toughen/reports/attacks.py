"""The attacks on runs: attacks/*.json read, one line for an attack and an arm, and the robustness section of a page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..attacks.summary import NUMBERS, AttackSummary, Point, Score, TextScores
from . import charts
from .drawing import Drawing
from .folder import ReportError, Run
from .formatting import number


@dataclass(frozen=True)
class Attack:
    """One attack on one arm of a run."""

    key: str
    """What is the same for every model under this attack: its name and split."""
    title: str
    kind: str
    metric: str
    arm: str
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


def attacks_of(run: Run) -> list[Attack]:
    """Return every attack on the method and on its plain baseline; where all seeds were attacked, their mean."""
    by_arm: dict[tuple[str, str], dict[str, AttackSummary]] = {}
    for name, fields in run.attacks.items():
        try:
            summary = AttackSummary.from_dict(fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ReportError(f"{run.path / 'attacks' / name}.json is no attack's summary: {error!r}.") from None
        arm = "baseline" if summary.label.startswith("baseline") else "method"
        key = name.removesuffix(f"-{summary.label}") if summary.label else name
        by_arm.setdefault((key, arm), {})[name] = summary
    # By key, so that the run's own rows come before other splits and limited looks; "-" sorts before ".json".
    ordered = sorted(by_arm.items(), key=lambda each: each[0][0])
    return [_mean_attack(key, arm, models) for (key, arm), models in ordered]


def _terms(settings: Mapping[str, Any]) -> str:
    """Return the settings without the random seed, to compare."""
    return json.dumps({k: value for k, value in settings.items() if k != "seed"}, sort_keys=True, default=str)


def _mean_attack(key: str, arm: str, models: Mapping[str, AttackSummary]) -> Attack:
    # The best model is one of the seeds: with all of them there, it would count twice. Checkpoints are no seeds.
    alone = {name: each for name, each in models.items() if not each.label}
    seeds = {name: each for name, each in models.items() if each.label and "checkpoint" not in each.label}
    used = seeds or alone or dict(list(models.items())[:1])
    summaries = list(used.values())
    first, terms = summaries[0], {_terms(each.settings) for each in summaries}
    hidden = [name for name, each in alone.items() if _terms(each.settings) not in terms]
    groups: dict[str, list[Sequence[Point]]] = {}
    for group in (group for each in summaries for group in each.groups or ()):
        groups.setdefault(group.name, []).append(group.points)
    curve = first.curve
    return Attack(
        key=key,
        title=first.title,
        kind=first.kind,
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
        notes=(
            *first.notes,
            *([f"{key}: a mean over seeds under different settings"] * (len(terms) > 1)),
            *(f"{key}: all seeds are shown; the best model alone under other settings is not" for _ in hidden),
        ),
    )


def _mean_points(curves: Sequence[Sequence[Point]]) -> tuple[Point, ...]:
    """Return the mean over models at every strength that all of them have."""
    by_x = [{point.x: point for point in points} for points in curves]
    shared = sorted(set.intersection(*map(set, by_x))) if by_x else []
    made: list[Point] = []
    for x in shared:
        noise = [score for points in by_x if (score := points[x].noise) is not None]
        made.append(Point(x, mean_interval(p[x].score for p in by_x), mean_interval(noise) if noise else None))
    return tuple(made)


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


Named = Sequence[tuple[str, Attack]]  # the model's name on the page, and one attack on it
_LINES, _BARS = 8, 4


def robustness(found: Named) -> dict[str, Any] | None:
    """Everything about attacks on these models; None where none were made."""
    if not found:
        return None
    titles = {attack.key: attack.title for _, attack in found}
    several = len(set(titles.values())) < len(titles)  # the same attack on several splits
    shown = {key: f"{title} ({key})" if several else title for key, title in titles.items()}
    by_key = {key: [(name, attack) for name, attack in found if attack.key == key] for key in titles}
    unlike = [key for key, each in by_key.items() if len({attack.terms for _, attack in each}) > 1]
    notes = [f"{shown[key]}: not every model was attacked with these settings; run it again for all." for key in unlike]
    return {
        "rows": [_cells(name, attack, shown[key]) for key, each in by_key.items() for name, attack in each],
        "drawings": [drawn for key, each in by_key.items() for drawn in _drawings(shown[key], each)],
        "groups": [_group_table(shown[key], each) for key, each in by_key.items() if any(a.groups for _, a in each)],
        "settings": [(shown[key], _settings(each[0][1])) for key, each in by_key.items()],
        "notes": [*notes, *dict.fromkeys(note for _, attack in found for note in attack.notes)],
        "averaged": max(len(attack.sources) for _, attack in found),
    }


def _cells(name: str, attack: Attack, title: str) -> dict[str, Any]:
    end = attack.end
    attacked = attack.attacked or TextScores()
    lost = attack.clean.value - end[0].value if end else None
    return {
        "model": name,
        "attack": title,
        "metric": attack.metric,
        "where": end[1] if end else "",
        "clean": number(attack.clean.value),
        "end": number(end[0].value) if end else number(None),
        "interval": f"{end[0].low:.3f} to {end[0].high:.3f}" if end and end[0].low != end[0].high else "",
        "lost": number(lost),
        "success": number(attacked.success_rate.value if attacked.success_rate else None, "{:.1%}"),
        "queries": number(attacked.queries, "{:.0f}"),
        "words": number(attacked.words_changed, "{:.1%}"),
        "rows": number(attack.rows, "{:d}"),
    }


def _drawings(title: str, found: Named) -> list[Drawing]:
    drawn: list[Drawing] = []
    curved = [(name, attack) for name, attack in found if len(attack.points) > 1]
    if curved:
        drawn.append(_curve(title, curved))
    grouped = [(name, attack) for name, attack in found if attack.groups]
    if grouped:
        kinds = list(dict.fromkeys(kind for _, attack in grouped for kind in attack.groups))
        scores = {
            kind: {name: attack.groups[kind][-1].score for name, attack in grouped[:_BARS] if kind in attack.groups}
            for kind in kinds[:12]
        }
        strengths = {attack.groups[kind][-1].x for _, attack in grouped for kind in attack.groups}
        note = "At the highest strength of each kind." if len(strengths) > 1 or any(strengths) else ""
        note += f" The first {_BARS} of {len(grouped)} models." if len(grouped) > _BARS else ""
        drawn.append(charts.bars(title, scores, y=grouped[0][1].metric, note=note))
    return drawn


def _curve(title: str, curved: Named) -> Drawing:
    """Adversarial lines beside random noise of the same size; the gap between both is the adversary's work."""
    bands: dict[str, charts.Band] = {}
    with_noise = len(curved) <= 3 and any(point.noise for _, attack in curved for point in attack.points)
    for colour, (name, attack) in enumerate(curved[:_LINES]):
        points = _from_clean(attack)
        bands[name if not with_noise else f"{name}, attacked"] = charts.Band(
            [_interval_at(p.x, p.score) for p in points], colour=colour
        )
        noisy = [_interval_at(p.x, p.noise) for p in points if p.noise is not None]
        if with_noise and len(noisy) > 1:
            bands[f"{name}, random noise"] = charts.Band(noisy, dashed=True, colour=colour)
    note = "Dashed: random noise of the same size; the gap to it is the adversary's work. " if with_noise else ""
    if len(curved) > _LINES:
        note += f"The first {_LINES} of {len(curved)} models. "
    return charts.curves(
        title, bands, x=curved[0][1].axis, y=curved[0][1].metric, note=f"{note}Shaded: 95 % over rows."
    )


def _interval_at(x: float, score: Score) -> tuple[float, float, float, float]:
    return x, score.value, score.low, score.high


def _from_clean(attack: Attack) -> Sequence[Point]:
    """The curve from the clean score on; many begin at strength 0 by themselves."""
    if attack.points[0].x == 0:
        return attack.points
    noise = attack.clean if attack.points[0].noise is not None else None
    return [Point(0.0, attack.clean, noise), *attack.points]


def _group_table(title: str, found: Named) -> dict[str, Any]:
    strengths = sorted({point.x for _, attack in found for points in attack.groups.values() for point in points})
    rows: list[dict[str, Any]] = []
    for name, attack in found:
        for kind, points in attack.groups.items():
            at = {point.x: point.score.value for point in points}
            rows.append({"model": name, "kind": kind, "cells": [number(at.get(x)) for x in strengths]})
    heads = [f"at {x:g}" for x in strengths] if len(strengths) > 1 else [found[0][1].metric]
    return {"title": title, "heads": heads, "rows": rows, "several": len(found) > 1}


def _settings(attack: Attack) -> str:
    settings = {key: value for key, value in attack.settings.items() if value not in (None, [], {}, "")}
    return ", ".join(f"{key} {' '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in settings.items())
