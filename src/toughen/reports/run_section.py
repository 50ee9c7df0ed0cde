"""One run as a section of a page: what was trained, how it learned, what the perturbation did, cost, calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import count_of
from ..runs.results import SeedResult
from ..statistics import cost, cost_ratio
from . import charts
from .drawing import Drawing
from .evaluations import error_charts, error_summaries
from .folder import ARMS, PLAIN, Arm, ClassScore, ErrorSummary, Run, Slice
from .formatting import lower_is_better
from .training_log import (
    GROUPS,
    Figure,
    Finding,
    adversarial_checks,
    eval_curves,
    last_figures,
    loss_parts,
    robust_series,
)

LINES, SLICES, CLASSES = 60, 300, 40  # of seeds and figures, of slices, of classes: no run may burst its page
COSTS = {
    "seconds_per_step": ("seconds a step", "time of a step"),
    "train_seconds": ("seconds of training", "seconds of training"),
    "forward": ("forward passes a step", "forward passes"),
    "backward": ("backward passes a step", "backward passes"),
    "peak_memory_mb": ("peak memory, MB", "peak memory"),
}
"""What is measured -> its name in the table and in the drawing."""


@dataclass(frozen=True)
class Section:
    """One run as `run.html` shows it."""

    run: Run
    about: Sequence[tuple[str, str]]
    metrics: Sequence[str]
    seeds: Sequence[tuple[str, SeedResult]]
    findings: Sequence[Finding]
    figures: Sequence[Figure]
    cost: Sequence[tuple[str, float, float | None, float | None]]
    """What is measured, of the run, of its plain baseline, and the ratio."""
    errors: Mapping[Arm, ErrorSummary]
    classes: Sequence[tuple[str, Mapping[Arm, ClassScore]]]
    """Every class with its scores, or the worst of many."""
    slices: Sequence[tuple[str, str, Slice]]
    """Evaluation, what its rows are grouped by, and one group."""
    drawings: Mapping[str, Sequence[Drawing]]
    """Drawings by the part of the page they belong to."""


def run_section(run: Run) -> Section:
    """Collect everything the folder of a run holds, as far as it is there."""
    names = {"method": run.method, "baseline": PLAIN}
    seeds = [(f"{names[arm]}, seed {seed.seed}", seed) for arm in ARMS for seed in run.seeds(arm)]
    ours, plain = (cost([vars(seed) for seed in run.seeds(arm)]) for arm in ARMS)
    ratios, errors = cost_ratio(ours, plain), error_summaries(run)
    times = {short: ratios[key] for key, (_, short) in COSTS.items() if key in ratios}
    slices = [
        (name, kind, row)
        for name, evaluation in run.evaluations.items()
        for kind, rows in evaluation.slices.items()
        if len(rows) > 1
        for row in rows
    ]
    return Section(
        run=run,
        about=_about(run),
        metrics=list(dict.fromkeys(name for seed in run.seeds() for name in seed.metrics)),
        seeds=seeds[:LINES],
        findings=adversarial_checks(run),
        figures=last_figures(run)[:LINES],
        cost=[(name, ours[key], plain.get(key), ratios.get(key)) for key, (name, _) in COSTS.items() if key in ours],
        errors=errors,
        classes=_classes(errors),
        slices=slices[:SLICES],
        drawings={
            "learning": _learning(run),
            "adversarial": [
                charts.lines(title, lines, note=GROUPS[title][1], scale=GROUPS[title][2])
                for title, lines in robust_series(run).items()
            ],
            "cost": [charts.ratios("cost against plain fine-tuning", times)] if times else [],
            "calibration": error_charts(run, errors),
            "attention": _attention(run),
            "spectrum": _spectrum(run),
        },
    )


def _classes(errors: Mapping[Arm, ErrorSummary]) -> Sequence[tuple[str, Mapping[Arm, ClassScore]]]:
    """Return the scores of each class for both arms; of many classes the worst of the method."""
    rows: dict[str, dict[Arm, ClassScore]] = {}
    for arm, summary in errors.items():
        for score in summary.classes:
            rows.setdefault(score.label, {})[arm] = score
    if len(rows) <= CLASSES:
        return list(rows.items())
    return sorted(rows.items(), key=lambda row: next(iter(row[1].values())).f1)[:CLASSES]


def _about(run: Run) -> list[tuple[str, str]]:
    results, method = run.results, run.results.method
    settings = ", ".join(f"{key}={value}" for key, value in method.settings.items())
    facts = {
        "task": results.task,
        "model": results.model,
        "head": results.head,
        "method": f"{method.name}({settings})",
        "in full": method.repr,
        "rows": ", ".join(f"{name} {rows:,}" for name, rows in results.data.items()),
        "seeds": ", ".join(str(seed.seed) for seed in run.seeds()),
        "selected by": f"{run.metric} on the validation rows",
    }
    return [(term, words) for term, words in facts.items() if words]


def _learning(run: Run) -> list[Drawing]:
    drawings: list[Drawing] = []
    if parts := loss_parts(run):
        note = "Means over seeds." if len(run.seeds()) > 1 else ""
        drawings.append(charts.lines("loss and its parts", parts, dashed=(f"loss, {PLAIN}",), note=note))
    if curve := eval_curves(run, run.metric):
        title = f"{run.metric} while training"
        drawings.append(
            charts.lines(title, curve, y=run.metric, dashed=(PLAIN,), points=not lower_is_better(run.metric))
        )
    return drawings


def _attention(run: Run) -> list[Drawing]:
    """Draw how the best seed's model reads a few texts, and what its adversary hides."""
    diagnostics = run.diagnostics("attention")
    if not diagnostics:
        return []
    drawings: list[Drawing] = []
    for index, text in enumerate(diagnostics["texts"], start=1):
        note = "Crossed out: hidden in one draw, as training draws."
        parts = (text["tokens"], text["clean"], text["adversarial"], text["hidden"])
        drawings.append(charts.attention(f"attention, layer {diagnostics['layer']}, text {index}", *parts, note=note))
    hidden: dict[str, float] = diagnostics["hidden_by_layer"]
    if len(hidden) > 1:
        bars = {layer: {"hidden": (share, share, share)} for layer, share in hidden.items()}
        drawings.append(
            charts.bars("share of pairs hidden, by layer", bars, note=f"Over {count_of(diagnostics['rows'], 'text')}.")
        )
    return drawings


def _spectrum(run: Run) -> list[Drawing]:
    diagnostics = run.diagnostics("spectrum")
    if not diagnostics:
        return []
    before, after = diagnostics["before"], diagnostics["after"]
    note = f"Mean over {count_of(diagnostics['rows'], 'text')}, and the middle 80 %. "
    note += f"Effective rank {before['effective_rank']:.1f} before, {after['effective_rank']:.1f} after."
    parts = {"pooled covariance": before, f"after {diagnostics['normalization']}": after}
    return [charts.spectrum("singular values of the second-order head", parts, note=note)]
