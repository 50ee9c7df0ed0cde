"""One run as a section of a page: what was trained, how it learned, what the perturbation did, cost, calibration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..attacks.summary import finite
from ..errors import count_of
from ..runs.results import SeedResult
from ..statistics import cost, cost_ratio
from . import charts
from .drawing import Drawing
from .evaluations import error_charts, error_summaries
from .folder import ARMS, PLAIN, Arm, ClassScore, ErrorSummary, Run, Slice
from .formatting import format_score, lower_is_better

Points = list[tuple[float, float]]

ROBUST = {
    "delta_relative": "size of the perturbation, relative to what it perturbs",
    "delta_norm": "l2 norm of the perturbation",
    "delta_from_gradient": "share from the gradient (0: random noise, 1: the gradient's work)",
    "divergence_dropout": "divergence under another dropout mask",
    "divergence_perturbation": "divergence under the perturbation",
    "divergence": "divergence under the adversary",
    "budget": "share of attention pairs left visible",
    "visible": "share of attention pairs left visible in a layer",
    "skipped": "texts whose gradient was not finite and whose perturbation stayed as it was",
    "loss_clean": "task loss of the clean pass",
    "loss_perturbed": "task loss of the perturbed pass",
    "term": "the regulariser, before its weight",
    "forwards": "forward passes of a batch",
    "backwards": "backward passes of a batch",
    "weight_move": "l2 norm of the weights' move",
}
MOST = 160  # points of a line: a page's column has few more pixels to show them


def series(run: Run, key: str, kind: str = "train", arm: Arm = "method") -> Points:
    """Return the key over steps, the mean of the seeds that logged the step."""
    by_step: dict[float, list[float]] = {}
    for row in run.log:
        value, step = finite(row.get(key)), finite(row.get("step"))
        if row.get("kind") == kind and row.get("arm", "method") == arm and value is not None and step is not None:
            by_step.setdefault(step, []).append(value)
    return downsample([(step, sum(values) / len(values)) for step, values in sorted(by_step.items())])


def downsample(points: Points) -> Points:
    """Return at most `MOST` points, each the mean of its neighbours; the last is kept as it is."""
    if len(points) <= MOST:
        return points
    size = -(-len(points) // (MOST - 1))
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    means = [(sum(p[0] for p in part) / len(part), sum(p[1] for p in part) / len(part)) for part in parts]
    return [*means, points[-1]]


def loss_parts(run: Run) -> dict[str, Points]:
    """Return the loss and what it is made of; the baseline's loss beside it."""
    names = {
        "loss": "loss",
        "robust/loss_clean": "task loss, clean",
        "robust/loss_perturbed": "task loss, perturbed",
        "robust/term": "regulariser, before its weight",
    }
    parts = {label: series(run, key) for key, label in names.items()}
    for key in _robust_keys(run):
        prefix, number, name = key.split("/") if key.count("/") == 2 else ("", "", "")
        if number.isdigit() and (label := names.get(f"{prefix}/{name}")):  # of a sum of methods: robust/0/term
            parts[f"{label} ({number})"] = series(run, key)
    parts[f"loss, {PLAIN}"] = series(run, "loss", arm="baseline")
    shown: dict[str, Points] = {}
    for label, points in parts.items():
        # Methods without a regulariser log their one task loss under several names.
        if points and points not in shown.values():
            shown[label] = points
    return shown


def _robust_keys(run: Run) -> list[str]:
    return list(dict.fromkeys(key for row in run.log for key in row if key.startswith("robust/")))


def eval_curves(run: Run, metric: str) -> dict[str, Points]:
    """Return the metric over steps for each arm; log rows say `eval_accuracy` or `accuracy`."""
    arms: dict[Arm, str] = {"method": run.method, "baseline": PLAIN}
    curves = {
        label: series(run, f"eval_{metric}", "eval", arm) or series(run, metric, "eval", arm)
        for arm, label in arms.items()
    }
    return {label: points for label, points in curves.items() if points}


_SHORT = {
    "divergence_perturbation": "the perturbation",
    "divergence_dropout": "another dropout mask",
    "divergence": "the adversary",
}
Scale = tuple[float, float] | None
GROUPS: Mapping[str, tuple[str, str, Scale]] = {
    "size of the perturbation, relative": (
        "delta_relative",
        "Its norm as a share of the norm of what it perturbs.",
        None,
    ),
    "share from the gradient": ("delta_from_gradient", "0 is random noise, 1 the gradient's work.", (0, 1)),
    "divergence from the clean prediction": (
        "divergence",
        "Under the perturbation, and under another dropout mask alone.",
        None,
    ),
    "share of attention left visible": ("budget", "What the adversary does not hide; hiding has its price.", None),
}
"""Title of a drawing -> how the names of its figures begin, how to read it, and the whole axis if it has ends."""


def robust_series(run: Run) -> dict[str, dict[str, Points]]:
    """Return what the method did, one group a figure: size, share from the gradient, divergences, attention left."""
    logged = {key.removeprefix("robust/"): series(run, key) for key in _robust_keys(run)}
    groups: dict[str, dict[str, Points]] = {}
    for title, (start, *_) in GROUPS.items():
        chosen = {key: points for key, points in logged.items() if points and _figure(key).startswith(start)}
        if chosen and list(chosen) != ["divergence_dropout"]:  # alone it says nothing about a perturbation
            # One for each of many layers would be too many to tell apart.
            groups[title] = {_SHORT.get(key, key): points for key, points in list(chosen.items())[:8]}
    return groups


@dataclass(frozen=True)
class Figure:
    """The last logged value of something that the method measures."""

    key: str
    value: float

    @property
    def meaning(self) -> str:
        """What it says, by its name, which may start with a method's number and end with a layer's."""
        name = _figure(self.key)
        return ROBUST.get(name) or ROBUST.get(name.rpartition("_")[0], "")


def _figure(key: str) -> str:
    return key.split("/")[-1]


def last_figures(run: Run) -> list[Figure]:
    """Return the last logged value of every robust figure."""
    values: dict[str, float] = {}
    for row in run.log:
        if row.get("arm", "method") == "method":
            for key, value in row.items():
                if key.startswith("robust/") and (number := finite(value)) is not None:
                    values[key.removeprefix("robust/")] = number
    return [Figure(key, value) for key, value in sorted(values.items())]


def late_mean(run: Run, name: str) -> float | None:
    """Return the mean of a robust figure over the last half of training, over all sites and methods that have it."""
    late: list[float] = []
    for key in _robust_keys(run):
        if re.fullmatch(rf"{name}(_\d+)?", _figure(key)):
            points = series(run, key)
            late += [value for _, value in points[len(points) // 2 :]]
    return sum(late) / len(late) if late else None


Answer = Literal["yes", "partly", "no"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    question: str
    answer: Answer
    words: str


def adversarial_checks(run: Run) -> list[Finding]:
    """Say where the perturbation came from, what it did beside dropout, and what an adversary hides."""
    return [*_direction(run), *_effect(run), *_hiding(run), *_beside_noise(run)]


def _answer(value: float, yes: float, partly: float) -> Answer:
    return "yes" if value >= yes else "partly" if value >= partly else "no"


def _direction(run: Run) -> Iterator[Finding]:
    share = late_mean(run, "delta_from_gradient")
    if share is None:
        return
    answer = _answer(share, 0.5, 0.1)
    says: dict[Answer, str] = {
        "yes": "the gradient turned it away from its random start",
        "partly": "a good part of it is still its random start",
        "no": "it is its random start, hardly turned: noise under another name",
    }
    words = f"{share:.2f} on a scale from 0 (random) to 1 (the gradient's): {says[answer]}."
    yield Finding("Did the gradient find it?", answer, words)


def _effect(run: Run) -> Iterator[Finding]:
    moved, dropout = late_mean(run, "divergence_perturbation"), late_mean(run, "divergence_dropout")
    if moved is None or dropout is None:
        return
    if dropout <= 1e-12:
        yield Finding("Does it do more than dropout?", "yes", "there was no dropout: all of the divergence is its own.")
        return
    ratio = moved / dropout
    says = "" if ratio >= 1 else "; what the model learned to ignore was dropout before all"
    much = f"{ratio:.2f} times as much as" if ratio >= 0.01 else "less than a hundredth of what"
    words = f"it moved predictions {much} another dropout mask did{says}."
    yield Finding("Does it do more than dropout?", _answer(ratio, 1, 0.2), words)


def _hiding(run: Run) -> Iterator[Finding]:
    visible = late_mean(run, "budget")
    if visible is None or not 0 <= visible <= 1:  # the authors' variant counts pairs, not shares
        return
    hidden = 1 - visible
    says = "" if hidden >= 0.002 else ": it has given up, as hiding costs more than it gains (lower tau)"
    words = f"{hidden:.1%} of all pairs, late in training{says}."
    yield Finding("Does the adversary hide attention?", _answer(hidden, 0.02, 0.002), words)


def _beside_noise(run: Run) -> Iterator[Finding]:
    """Compare each attack with noise of the same size: if that does as much harm, a flat curve proves nothing."""
    for attack in run.attacks:
        last = attack.points[-1] if attack.points else None
        noise = last.noise if last else None
        if attack.arm != "method" or last is None or noise is None:
            continue
        lost, by_noise = attack.clean.value - last.score.value, attack.clean.value - noise.value
        answer: Answer = "yes" if last.score.high < noise.low else "partly" if lost > by_noise else "no"
        costs = f"{format_score(lost, attack.metric)} points of {attack.metric}"
        noisy = format_score(by_noise, attack.metric)
        words = f"at {last.x:g} it costs {costs}, random noise of the same size {noisy}."
        yield Finding(f"Is the attack more than noise? ({attack.title})", answer, words)


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
