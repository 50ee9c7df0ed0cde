"""Robustness as sections of a page: curves, tables of attacks, noise by kind."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import robust_figures as draw
from .attacks import Attack, Point
from .cells import number
from .drawing import Drawing
from .figures import bars

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
        drawn.append(bars(title, scores, y=grouped[0][1].metric, note=note))
    return drawn


def _curve(title: str, curved: Named) -> Drawing:
    """Adversarial lines beside random noise of the same size; the gap between both is the adversary's work."""
    bands: dict[str, draw.Band] = {}
    with_noise = len(curved) <= 3 and any(point.noise for _, attack in curved for point in attack.points)
    for colour, (name, attack) in enumerate(curved[:_LINES]):
        points = _from_clean(attack)
        bands[name if not with_noise else f"{name}, attacked"] = draw.Band(
            [(p.x, *p.score) for p in points], colour=colour
        )
        noisy = [(p.x, *p.noise) for p in points if p.noise is not None]
        if with_noise and len(noisy) > 1:
            bands[f"{name}, random noise"] = draw.Band(noisy, dashed=True, colour=colour)
    note = "Dashed: random noise of the same size; the gap to it is the adversary's work. " if with_noise else ""
    if len(curved) > _LINES:
        note += f"The first {_LINES} of {len(curved)} models. "
    return draw.curves(title, bands, x=curved[0][1].axis, y=curved[0][1].metric, note=f"{note}Shaded: 95 % over rows.")


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
    told = {key: value for key, value in attack.settings.items() if value not in (None, [], {}, "")}
    return ", ".join(f"{key} {' '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in told.items())
