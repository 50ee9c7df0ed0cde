"""What attacks found, as tables: each model by itself, then paired differences and means over seeds."""

import re
from collections.abc import Sequence
from typing import Any

from ..attacks.summary import AttackSummary, Score, TextScores
from ..evaluation import differences, seed_scores
from ..statistics import paired_t, summarise
from .tables import console, span, table

Found = Sequence[tuple[str, Any]]
_SEED = re.compile(r"(.*?)-?(seed|baseline)-(\d+)$")


def show(found: Found) -> None:
    """All tables of evaluations under attack."""
    out = console()
    many = len({path for path, _ in found}) > 1
    names = [f"{path} · {each.name}" if many else each.name for path, each in found]
    for kind, rows in (("attacked", _texts), ("curve", _curves), ("groups", _groups)):
        told = [(name, one) for name, (_, each) in zip(names, found, strict=True) for one in each.attacks]
        lines = [line for name, one in told if getattr(one.summary, kind) for line in rows(name, one.summary)]
        if lines:
            out.print(table(_HEADS[kind], lines, folds=(0, 3) if kind == "attacked" else (0,)))
    for name, (_, each) in zip(names, found, strict=True):
        for one in each.attacks:
            for note in one.summary.notes:
                out.print(f"note: {name}, {one.summary.attack}: {note}", markup=False)
    arms = _arms(found)
    if arms:
        _show_seeds(out, arms)
    elif len(found) > 1:
        _show_pairs(out, names, found)


_HEADS = {
    "attacked": ["evaluation", "attack", "clean", "after (95 % interval)", "success", "queries", "words\nchanged"],
    "curve": ["evaluation", "radius", "PGD (95 % interval)", "FGSM", "random noise"],
    "groups": ["evaluation", "attack", "strength", "score (95 % interval)", "clean"],
}


def _texts(name: str, summary: AttackSummary) -> list[list[str]]:
    scores = summary.attacked or TextScores()
    rate, after = scores.success_rate, scores.accuracy
    success = "-" if rate is None else f"{rate.value:.1%}"
    numbers = [f"{scores.queries or 0:.1f}", f"{scores.words_changed or 0:.1%}"]
    return [[name, summary.attack, f"{summary.clean.value:.4f}", _span(after) if after else "-", success, *numbers]]


def _curves(name: str, summary: AttackSummary) -> list[list[str]]:
    points = summary.curve.points if summary.curve else ()
    others = [[f"{score.value:.4f}" if score else "-" for score in (p.fgsm, p.noise)] for p in points]
    return [[name, f"{p.x:g}", _span(p.score), *other] for p, other in zip(points, others, strict=True)]


def _groups(name: str, summary: AttackSummary) -> list[list[str]]:
    return [
        [name, group.name, f"{point.x:g}" if point.x else "-", _span(point.score), f"{summary.clean.value:.4f}"]
        for group in summary.groups or ()
        for point in group.points
        if point.x or len(group.points) == 1
    ]


def _span(score: Score) -> str:
    return span(score.to_dict())


def _show_pairs(out: Any, names: Sequence[str], found: Found) -> None:
    """A table for each model after the first, which they are held against; long names have lines of their own."""
    first = found[0][1]
    for name, (_, each) in list(zip(names, found, strict=True))[1:]:
        rows: list[list[str]] = []
        for one in differences(each.attacks, first.attacks):
            told = f"{one.difference:+.4f} ({one.low:+.3f} to {one.high:+.3f})"
            rows.append([one.attack, one.point, told, _p(one.p), _p(one.mcnemar)])
        out.print(f"paired differences: {name} less {names[0]}", markup=False, soft_wrap=True)
        heads = ["attack", "at", "difference (95 % interval)", "p bootstrap", "p McNemar"]
        out.print(table(heads, rows, folds=(1, 3, 4)))


def _arms(found: Found) -> dict[str, dict[int, Any]]:
    """Run and arm -> seed -> attacks, where every model is a seed of a run."""
    arms: dict[str, dict[int, Any]] = {}
    for path, each in found:
        match = _SEED.match(each.name)
        if match is None:
            return {}
        arm = f"{path} · plain" if match[2] == "baseline" else path
        arms.setdefault(arm, {})[int(match[3])] = each.attacks
    return arms


def _show_seeds(out: Any, arms: dict[str, dict[int, Any]]) -> None:
    """Means over seeds, and the paired t test over the seeds that two arms have in common."""
    first, *_ = arms
    scores = {arm: seed_scores(models) for arm, models in arms.items()}
    rows: list[list[str]] = []
    for arm, table_ in scores.items():
        for (attack, point), values in table_.items():
            against = scores[first].get((attack, point))
            test = paired_t(values, against) if arm != first and against else None
            told = "-" if test is None else f"{test.difference:+.4f}"
            rows.append([arm, attack, point, str(summarise(list(values.values()))), told, _p(test.p if test else None)])
    if len(arms) > 1:
        out.print(f"differences: less {first}, paired by seed", markup=False, soft_wrap=True)
    heads = ["mean over seeds", "attack", "at", "mean ± sd", "difference", "p, paired t"]
    out.print(table(heads, rows, folds=(0, 2, 5)))


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
