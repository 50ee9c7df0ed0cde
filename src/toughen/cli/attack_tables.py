"""Tables of attacks: each model by itself, then paired differences and means over seeds."""

from collections.abc import Callable, Mapping, Sequence

from ..attacks.paired import differences, seed_scores
from ..attacks.runner import AttackResult
from ..attacks.summary import AttackSummary, Score, TextScores
from ..evaluation import Evaluation
from ..statistics import paired_t, summarise
from . import say
from .tables import SEED, model_names, print_table, span


def print_attacks(evaluations: Sequence[tuple[str, Evaluation]]) -> None:
    """Print all tables of evaluations under attack, each with the path of its run or model."""
    head, names = model_names(evaluations)
    attacks = [(name, one.summary) for name, (_, each) in zip(names, evaluations, strict=True) for one in each.attacks]
    for kind, (heads, cells, folds) in _TABLES.items():
        known = [(name, summary) for name, summary in attacks if getattr(summary, kind)]
        if rows := [[name, *row] for name, summary in known for row in cells(summary)]:
            print_table([head, *heads], rows, folds)
    for name, summary in attacks:
        for note in summary.notes:
            say(f"note: {name}, {summary.attack}: {note}")
    if variants := _variants(evaluations):
        _print_seeds(variants)
    elif len(evaluations) > 1:
        _print_pairs(names, [each.attacks for _, each in evaluations])


def _text_cells(summary: AttackSummary) -> list[list[str]]:
    scores = summary.attacked or TextScores()
    after = span(*scores.accuracy) if scores.accuracy else "-"
    success = "-" if scores.success_rate is None else f"{scores.success_rate.value:.1%}"
    numbers = [f"{scores.queries or 0:.1f}", f"{scores.words_changed or 0:.1%}"]
    return [[summary.attack, _value(summary.clean), after, success, *numbers]]


def _curve_cells(summary: AttackSummary) -> list[list[str]]:
    points = summary.curve.points if summary.curve else ()
    return [[f"{p.x:g}", span(*p.score), _value(p.fgsm), _value(p.noise)] for p in points]


def _group_cells(summary: AttackSummary) -> list[list[str]]:
    return [
        [group.name, f"{p.x:g}" if p.x else "-", span(*p.score), _value(summary.clean)]
        for group in summary.groups or ()
        for p in group.points
        if p.x or len(group.points) == 1
    ]


# Field of a summary -> heads after the model's, cells, and the columns that fold.
_TABLES: Mapping[str, tuple[list[str], Callable[[AttackSummary], list[list[str]]], tuple[int, ...]]] = {
    "attacked": (
        ["attack", "clean", "after (95 % interval)", "success", "queries", "words\nchanged"],
        _text_cells,
        (0, 3),
    ),
    "curve": (["radius", "PGD (95 % interval)", "FGSM", "random noise"], _curve_cells, (0,)),
    "groups": (["attack", "strength", "score (95 % interval)", "clean"], _group_cells, (0,)),
}


def _value(score: Score | None) -> str:
    return f"{score.value:.4f}" if score else "-"


def reference_of(path: str, each: Evaluation, evaluations: Sequence[tuple[str, Evaluation]]) -> Evaluation | None:
    """Return what a model is held against: a seed against its plain baseline, others against the first model."""
    first = evaluations[0][1]
    if match := SEED.match(each.name):
        if match[2] == "baseline":
            return None
        own = each.name.removesuffix(f"seed-{match[3]}") + f"baseline-{match[3]}"
        first = next((other for where, other in evaluations if (where, other.name) == (path, own)), first)
    return None if first is each else first


def _print_pairs(names: Sequence[str], attacks: Sequence[Sequence[AttackResult]]) -> None:
    """Print a table for each model after the first, its reference; long names have lines of their own."""
    for name, own in zip(names[1:], attacks[1:], strict=True):
        rows: list[list[str]] = []
        for each in differences(own, attacks[0]):
            shown = f"{each.difference:+.4f} ({each.low:+.3f} to {each.high:+.3f})"
            rows.append([each.attack, each.point, shown, _p(each.p), _p(each.mcnemar)])
        say(f"paired differences: {name} less {names[0]}")
        heads = ["attack", "at", "difference (95 % interval)", "p bootstrap", "p McNemar"]
        print_table(heads, rows, folds=(1, 3, 4))


def _variants(evaluations: Sequence[tuple[str, Evaluation]]) -> dict[str, dict[int, Sequence[AttackResult]]]:
    """Return the attacks by seed of each run and its plain baseline, or nothing if some model is no seed of a run."""
    variants: dict[str, dict[int, Sequence[AttackResult]]] = {}
    for path, each in evaluations:
        match = SEED.match(each.name)
        if match is None:
            return {}
        variant = _plain(path) if match[2] == "baseline" else path
        variants.setdefault(variant, {})[int(match[3])] = each.attacks
    return variants


def _print_seeds(variants: Mapping[str, Mapping[int, Sequence[AttackResult]]]) -> None:
    """Print means over seeds, and paired t tests of each run less its own plain baseline, else less the first run."""
    scores = {variant: seed_scores(models) for variant, models in variants.items()}
    first = next(iter(scores))
    baselines = {_plain(variant) for variant in scores}
    references = {
        variant: _plain(variant) if _plain(variant) in scores else first
        for variant in scores
        if variant not in baselines and (variant != first or _plain(variant) in scores)
    }
    alone = len(scores) == 1 + len(baselines & scores.keys())
    shown = {each: ("plain" if each in baselines else "the run") if alone else each for each in scores}
    rows: list[list[str]] = []
    for variant, by_point in scores.items():
        for point, values in by_point.items():
            reference = scores[references[variant]].get(point) if variant in references else None
            test = paired_t(values, reference) if reference else None
            paired = [f"{round(test.difference, 4) + 0.0:+.4f}", _p(test.p)] if test else ["-", "-"]
            rows.append([shown[variant], *point, str(summarise(list(values.values()))), *paired])
    if names := set(references.values()):
        less = names.pop() if len(names) == 1 else f"the run's own plain baseline, or {first} where it has none"
        say(f"means over seeds; differences: scores less those of {shown.get(less, less)}, a t test paired by seed")
    print_table(["model", "attack", "at", "mean ± sd", "difference", "p"], rows, folds=(0, 2))


def _plain(path: str) -> str:
    return f"{path} · plain"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
