"""The robustness section of a page: what every attack leaves of every model's score."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..attacks.summary import Point
from . import charts
from .attack_means import Attack
from .drawing import Drawing
from .formatting import lower_is_better

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
