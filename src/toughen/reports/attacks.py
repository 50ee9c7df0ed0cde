"""attacks/*.json as the reports show them: one line an attack and an arm, the mean over the seeds attacked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .folder import ReportError, Run, finite

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
    for name, told in run.attacks.items():
        arm = "baseline" if str(told.get("label") or "").startswith("baseline") else "method"
        found.setdefault((_key(told, name), arm), []).append((name, told))
    # By key, so that the run's own rows come before other splits and limited looks; "-" sorts before ".json".
    ordered = sorted(found.items(), key=lambda each: each[0][0])
    return [_merged(key, arm, _seeds(models), run, _hidden(models)) for (key, arm), models in ordered]


def _terms(settings: Mapping[str, Any]) -> str:
    """The seed of its dice is none of them."""
    told = {name: value for name, value in settings.items() if name != "seed"}
    return json.dumps(told, sort_keys=True, default=str)


def _key(told: Mapping[str, Any], name: str) -> str:
    """The file's name without what tells the models apart."""
    label = str(told.get("label") or "")
    return name.removesuffix(f"-{label}") if label else name


def _seeds(models: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """The best model is one of the seeds: with all of them there, it would count twice. Checkpoints are no seeds."""
    labelled = [each for each in models if each[1].get("label") and "checkpoint" not in str(each[1]["label"])]
    return labelled or [each for each in models if not each[1].get("label")] or models[:1]


def _hidden(models: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The best model's own summary, where it says something else than those of the seeds that stand in its place."""
    shown = {_terms(told.get("settings") or {}) for _, told in _seeds(models)}
    alone = [(name, told) for name, told in models if not told.get("label")]
    return [name for name, told in alone if _terms(told.get("settings") or {}) not in shown]


def _merged(
    key: str, arm: str, models: Sequence[tuple[str, Mapping[str, Any]]], run: Run, hidden: Sequence[str]
) -> Attack:
    names, tellings = [name for name, _ in models], [told for _, told in models]
    first = tellings[0]
    mixed = len({_terms(told.get("settings") or {}) for told in tellings}) > 1
    try:
        curves = [told["curve"]["points"] for told in tellings if told.get("curve")]
        groups: dict[str, list[list[Mapping[str, Any]]]] = {}
        for told in tellings:
            for group in told.get("groups") or ():
                groups.setdefault(str(group["name"]), []).append(group["points"])
        attacked = [told["attacked"] for told in tellings if told.get("attacked")]
        return Attack(
            key=key,
            title=str(first.get("title") or first["attack"]),
            kind=str(first["kind"]),
            metric=str(first["metric"]),
            arm=arm,
            sources=tuple(names),
            rows=int(first["rows"]),
            clean=mean_interval(_interval(told["clean"]) for told in tellings),
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


def _attacked(tellings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("accuracy", "success_rate"):
        # Where every row was wrong before, none was attacked, and a success rate has no value.
        known = [_interval(told[key]) for told in tellings if finite((told.get(key) or {}).get("value")) is not None]
        if known:
            made[key] = dict(zip(("value", "low", "high"), mean_interval(known), strict=True))
    for key in ("queries", "words_changed", "skipped", "failed", "succeeded"):
        numbers = [number for told in tellings if (number := finite(told.get(key))) is not None]
        if numbers:
            made[key] = sum(numbers) / len(numbers)
    return made


def _interval(told: Mapping[str, Any], value: str = "value", prefix: str = "") -> Interval:
    """(value, low, high); a score without an interval stands for all three."""
    middle = finite(told.get(value))
    if middle is None:
        raise ValueError(f"{value!r} is no number")
    low, high = finite(told.get(f"{prefix}low")), finite(told.get(f"{prefix}high"))
    return middle, middle if low is None else low, middle if high is None else high


def mean_interval(intervals: Iterable[Interval]) -> Interval:
    """Means of values and of both ends: the interval of a typical seed, not of the mean over seeds."""
    columns = list(zip(*intervals, strict=True))
    low, middle, high = (sum(columns[place]) / len(columns[place]) for place in (1, 0, 2))
    return middle, low, high
