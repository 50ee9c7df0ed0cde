"""The summary of an attack, as attacks/<name>.json holds it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_NO_SCORE = {"value": None, "low": None, "high": None}


def finite(value: object) -> float | None:
    """Return the value as a number, None where it is none: files of broken runs hold NaN and words."""
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    return number if math.isfinite(number) else None


class Score(NamedTuple):
    """A score with its 95 % interval. Without an interval `low` and `high` are the score itself."""

    value: float
    low: float
    high: float

    @staticmethod
    def from_dict(fields: Mapping[str, Any], name: str = "value", prefix: str = "") -> "Score":
        """Read a score, or raise ValueError if it is not a finite number."""
        value = finite(fields.get(name))
        if value is None:
            raise ValueError(f"{name!r} is not a number")
        low, high = finite(fields.get(f"{prefix}low")), finite(fields.get(f"{prefix}high"))
        return Score(value, value if low is None else low, value if high is None else high)

    def to_dict(self, name: str = "value", prefix: str = "") -> dict[str, float]:
        return {name: self.value, f"{prefix}low": self.low, f"{prefix}high": self.high}


@dataclass(frozen=True)
class Point:
    """The score at one strength of an attack."""

    x: float
    score: Score
    noise: Score | None = None
    """Under random noise of the same size."""
    fgsm: Score | None = None
    changed: float | None = None
    """Share of the texts that changed."""
    rows: int | None = None

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Point":
        noise, fgsm = (
            Score.from_dict(fields, name, f"{name}_") if finite(fields.get(name)) is not None else None
            for name in ("noise", "fgsm")
        )
        x = float(fields.get("x") or 0.0)
        return Point(x, Score.from_dict(fields), noise, fgsm, fields.get("changed"), fields.get("rows"))

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"x": self.x, **self.score.to_dict()}
        for name, score in (("noise", self.noise), ("fgsm", self.fgsm)):
            fields |= score.to_dict(name, f"{name}_") if score else {}
        extra = {"changed": self.changed, "rows": self.rows}
        return fields | {name: value for name, value in extra.items() if value is not None}


@dataclass(frozen=True)
class Curve:
    """Scores over the strength of an attack."""

    points: Sequence[Point]
    axis: str = "strength"
    unit: str = ""


@dataclass(frozen=True)
class Group:
    """Scores under one kind of noise, or on one set of rows."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class TextScores:
    """The result of a search over texts. Old files may lack any of the numbers."""

    accuracy: Score | None = None
    """After the attack."""
    success_rate: Score | None = None
    """Of the examples that were right before; None if there were none."""
    skipped: float | None = None
    failed: float | None = None
    succeeded: float | None = None
    queries: float | None = None
    """Mean over the attacked examples."""
    words_changed: float | None = None
    """Mean share of words over the examples that the attack broke."""
    examples: str | None = None
    """The file of the attacked examples, relative to the model's folder."""

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "TextScores":
        accuracy, rate = (
            Score.from_dict(score) if finite((score := fields.get(name) or {}).get("value")) is not None else None
            for name in ("accuracy", "success_rate")
        )
        counts = {name: finite(fields.get(name)) for name in NUMBERS}
        return TextScores(accuracy, rate, **counts, examples=fields.get("examples"))

    def to_dict(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if value is not None}
        scores = {"accuracy": self.accuracy, "success_rate": self.success_rate}
        return fields | {name: score.to_dict() if score else dict(_NO_SCORE) for name, score in scores.items()}


NUMBERS = ("skipped", "failed", "succeeded", "queries", "words_changed")


@dataclass(frozen=True)
class AttackSummary:
    """One attack on one model. Exactly one of `curve`, `attacked` and `groups` is set, by the kind of attack."""

    kind: str
    attack: str
    title: str
    metric: str
    rows: int
    clean: Score
    curve: Curve | None = None
    attacked: TextScores | None = None
    groups: Sequence[Group] | None = None
    label: str = ""
    """Tells the model from others in the same folder: seed-2, checkpoint-30."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: Sequence[str] = ()
    task: str = ""
    split: str = ""
    model: str = ""
    seed: int = 0
    seconds: float = 0.0
    key: str = ""
    """A digest of everything the result depends on."""
    toughen: str = ""

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "AttackSummary":
        """Read attacks/<name>.json, also of older versions; raise KeyError, TypeError or ValueError if it is none."""
        curve, groups, attacked = (fields.get(name) for name in ("curve", "groups", "attacked"))
        text = {name: str(fields.get(name) or "") for name in ("label", "task", "split", "model", "key", "toughen")}
        return AttackSummary(
            kind=str(fields["kind"]),
            attack=str(fields["attack"]),
            title=str(fields.get("title") or fields["attack"]),
            metric=str(fields["metric"]),
            rows=int(fields["rows"]),
            clean=Score.from_dict(fields["clean"]),
            curve=Curve(_points(curve), str(curve.get("axis") or "strength"), str(curve.get("unit") or ""))
            if curve
            else None,
            attacked=TextScores.from_dict(attacked) if attacked else None,
            groups=[Group(str(group["name"]), _points(group)) for group in groups] if groups else None,
            settings=fields.get("settings") or {},
            notes=list(fields.get("notes") or ()),
            seed=int(fields.get("seed") or 0),
            seconds=float(fields.get("seconds") or 0.0),
            **text,
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of attacks/<name>.json."""
        fields = dict(vars(self)) | {"clean": self.clean.to_dict()}
        if self.curve:
            fields["curve"] = {**vars(self.curve), "points": [point.to_dict() for point in self.curve.points]}
        if self.attacked:
            fields["attacked"] = self.attacked.to_dict()
        if self.groups is not None:
            fields["groups"] = [{"name": g.name, "points": [p.to_dict() for p in g.points]} for g in self.groups]
        return fields


def _points(fields: Mapping[str, Any]) -> list[Point]:
    return [Point.from_dict(point) for point in fields["points"]]
