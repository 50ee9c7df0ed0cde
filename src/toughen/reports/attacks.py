"""The attacks on runs: attacks/*.json read, one line for an attack and an arm, and the robustness section of a page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import charts
from .drawing import Drawing
from .folder import ReportError, Run, finite
from .formatting import number

Interval = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True)
class Point:
    """The score at one strength, and that under random noise of the same size."""

    x: float
    score: Interval
    noise: Interval | None = None


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
    clean: Interval
    axis: str = ""
    points: tuple[Point, ...] = ()
    groups: Mapping[str, tuple[Point, ...]] = field(default_factory=dict[str, tuple[Point, ...]])
    attacked: Mapping[str, Any] | None = None
    """after-attack accuracy and success rate with intervals, mean queries, share of words changed, counts."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> str:
        """Budgets and what else it ran under: models attacked under others are not to be held against each other."""
        return _terms(self.settings)

    @property
    def end(self) -> tuple[Interval, str] | None:
        """The score at the full budget, and what that is."""
        if self.attacked and self.attacked.get("accuracy"):
            return _interval(self.attacked["accuracy"]), ""
        if self.points:
            last = self.points[-1]
            return last.score, f"at {last.x:g}" if last.x else ""
        if self.groups:
            worst = min(self.groups, key=lambda name: self.groups[name][-1].score[0])
            return self.groups[worst][-1].score, f"worst: {worst}"
        return None


def attacks_of(run: Run) -> list[Attack]:
    """Every attack on the method and on its plain baseline; where all seeds were attacked, their mean."""
    found: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, summary in run.attacks.items():
        arm = "baseline" if str(summary.get("label") or "").startswith("baseline") else "method"
        found.setdefault((_key(summary, name), arm), []).append((name, summary))
    # By key, so that the run's own rows come before other splits and limited looks; "-" sorts before ".json".
    ordered = sorted(found.items(), key=lambda each: each[0][0])
    return [_merged(key, arm, _seeds(models), run, _hidden(models)) for (key, arm), models in ordered]


def _terms(settings: Mapping[str, Any]) -> str:
    """The seed of its dice is none of them."""
    terms = {name: value for name, value in settings.items() if name != "seed"}
    return json.dumps(terms, sort_keys=True, default=str)


def _key(summary: Mapping[str, Any], name: str) -> str:
    """The file's name without what tells the models apart."""
    label = str(summary.get("label") or "")
    return name.removesuffix(f"-{label}") if label else name


def _seeds(models: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """The best model is one of the seeds: with all of them there, it would count twice. Checkpoints are no seeds."""
    labelled = [each for each in models if each[1].get("label") and "checkpoint" not in str(each[1]["label"])]
    return labelled or [each for each in models if not each[1].get("label")] or models[:1]


def _hidden(models: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The best model's own summary, where it says something else than those of the seeds that stand in its place."""
    shown = {_terms(summary.get("settings") or {}) for _, summary in _seeds(models)}
    alone = [(name, summary) for name, summary in models if not summary.get("label")]
    return [name for name, summary in alone if _terms(summary.get("settings") or {}) not in shown]


def _merged(
    key: str, arm: str, models: Sequence[tuple[str, Mapping[str, Any]]], run: Run, hidden: Sequence[str]
) -> Attack:
    names, summaries = [name for name, _ in models], [summary for _, summary in models]
    first = summaries[0]
    mixed = len({_terms(summary.get("settings") or {}) for summary in summaries}) > 1
    try:
        curves = [summary["curve"]["points"] for summary in summaries if summary.get("curve")]
        groups: dict[str, list[list[Mapping[str, Any]]]] = {}
        for summary in summaries:
            for group in summary.get("groups") or ():
                groups.setdefault(str(group["name"]), []).append(group["points"])
        attacked = [summary["attacked"] for summary in summaries if summary.get("attacked")]
        return Attack(
            key=key,
            title=str(first.get("title") or first["attack"]),
            kind=str(first["kind"]),
            metric=str(first["metric"]),
            arm=arm,
            sources=tuple(names),
            rows=int(first["rows"]),
            clean=mean_interval(_interval(summary["clean"]) for summary in summaries),
            axis=_axis(first.get("curve") or {}),
            points=_points(curves),
            groups={name: points for name, each in groups.items() if (points := _points(each))},
            attacked=_attacked(attacked) if attacked else None,
            settings=first.get("settings") or {},
            notes=(
                *(first.get("notes") or ()),
                *([f"{key}: a mean over seeds under different settings"] * mixed),
                *(f"{key}: all seeds are shown; the best model alone under other settings is not" for _ in hidden),
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{run.path / 'attacks' / names[0]}.json is no attack's summary: {error!r}.") from None


def _axis(curve: Mapping[str, Any]) -> str:
    axis, unit = str(curve.get("axis") or "strength"), str(curve.get("unit") or "")
    return f"{axis}, {unit}" if unit else axis


def _points(curves: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[Point, ...]:
    """The mean over models at every strength that all of them have."""
    by_x = [{float(point.get("x") or 0.0): point for point in points} for points in curves]
    shared = sorted(set.intersection(*map(set, by_x))) if by_x else []
    made: list[Point] = []
    for x in shared:
        here = [points[x] for points in by_x]
        noise = [_interval(p, "noise", "noise_") for p in here if finite(p.get("noise")) is not None]
        made.append(Point(x, mean_interval(map(_interval, here)), mean_interval(noise) if noise else None))
    return tuple(made)


def _attacked(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("accuracy", "success_rate"):
        # Where every row was wrong before, none was attacked, and a success rate has no value.
        known = [
            _interval(summary[key])
            for summary in summaries
            if finite((summary.get(key) or {}).get("value")) is not None
        ]
        if known:
            made[key] = dict(zip(("value", "low", "high"), mean_interval(known), strict=True))
    for key in ("queries", "words_changed", "skipped", "failed", "succeeded"):
        numbers = [number for summary in summaries if (number := finite(summary.get(key))) is not None]
        if numbers:
            made[key] = sum(numbers) / len(numbers)
    return made


def _interval(fields: Mapping[str, Any], value: str = "value", prefix: str = "") -> Interval:
    """(value, low, high); a score without an interval stands for all three."""
    middle = finite(fields.get(value))
    if middle is None:
        raise ValueError(f"{value!r} is no number")
    low, high = finite(fields.get(f"{prefix}low")), finite(fields.get(f"{prefix}high"))
    return middle, middle if low is None else low, middle if high is None else high


def mean_interval(intervals: Iterable[Interval]) -> Interval:
    """Means of values and of both ends: the interval of a typical seed, not of the mean over seeds."""
    columns = list(zip(*intervals, strict=True))
    low, middle, high = (sum(columns[index]) / len(columns[index]) for index in (1, 0, 2))
    return middle, low, high


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
    attacked = attack.attacked or {}
    lost = attack.clean[0] - end[0][0] if end else None
    rate: Mapping[str, Any] = attacked.get("success_rate") or {}
    return {
        "model": name,
        "attack": title,
        "metric": attack.metric,
        "where": end[1] if end else "",
        "clean": number(attack.clean[0]),
        "end": number(end[0][0]) if end else number(None),
        "interval": f"{end[0][1]:.3f} to {end[0][2]:.3f}" if end and end[0][1] != end[0][2] else "",
        "lost": number(lost),
        "success": number(rate.get("value"), "{:.1%}"),
        "queries": number(attacked.get("queries"), "{:.0f}"),
        "words": number(attacked.get("words_changed"), "{:.1%}"),
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
            [(p.x, *p.score) for p in points], colour=colour
        )
        noisy = [(p.x, *p.noise) for p in points if p.noise is not None]
        if with_noise and len(noisy) > 1:
            bands[f"{name}, random noise"] = charts.Band(noisy, dashed=True, colour=colour)
    note = "Dashed: random noise of the same size; the gap to it is the adversary's work. " if with_noise else ""
    if len(curved) > _LINES:
        note += f"The first {_LINES} of {len(curved)} models. "
    return charts.curves(
        title, bands, x=curved[0][1].axis, y=curved[0][1].metric, note=f"{note}Shaded: 95 % over rows."
    )


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
            at = {point.x: point.score[0] for point in points}
            rows.append({"model": name, "kind": kind, "cells": [number(at.get(x)) for x in strengths]})
    heads = [f"at {x:g}" for x in strengths] if len(strengths) > 1 else [found[0][1].metric]
    return {"title": title, "heads": heads, "rows": rows, "several": len(found) > 1}


def _settings(attack: Attack) -> str:
    settings = {key: value for key, value in attack.settings.items() if value not in (None, [], {}, "")}
    return ", ".join(f"{key} {' '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in settings.items())
