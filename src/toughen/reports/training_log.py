"""The log of a run: series to draw, and checks of whether its perturbation was adversarial."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .attacks import Attack
from .folder import Run, finite

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


def series(run: Run, key: str, kind: str = "train", arm: str = "method") -> Points:
    """The key over steps, the mean of the seeds that logged the step."""
    found: dict[float, list[float]] = {}
    for row in run.log:
        value, step = finite(row.get(key)), finite(row.get("step"))
        if row.get("kind") == kind and row.get("arm", "method") == arm and value is not None and step is not None:
            found.setdefault(step, []).append(value)
    return downsample([(step, sum(values) / len(values)) for step, values in sorted(found.items())])


def downsample(points: Points) -> Points:
    """At most `MOST` points, each the mean of its neighbours; the last is kept as it is."""
    if len(points) <= MOST:
        return points
    size = -(-len(points) // (MOST - 1))
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    means = [(sum(p[0] for p in part) / len(part), sum(p[1] for p in part) / len(part)) for part in parts]
    return [*means, points[-1]]


def loss_parts(run: Run) -> dict[str, Points]:
    """The loss and what it is made of; the baseline's loss beside it."""
    names = {
        "loss": "loss",
        "robust/loss_clean": "task loss, clean",
        "robust/loss_perturbed": "task loss, perturbed",
        "robust/term": "regulariser, before its weight",
    }
    found = {label: series(run, key) for key, label in names.items()}
    found |= {f"{label} ({key.split('/')[1]})": series(run, key) for key, label in _numbered(run, names).items()}
    found["loss, plain baseline"] = series(run, "loss", arm="baseline")
    shown: dict[str, Points] = {}
    for label, points in found.items():
        # Methods without a regulariser log their one task loss under several names.
        if points and points not in shown.values():
            shown[label] = points
    return shown


def _numbered(run: Run, names: Mapping[str, str]) -> dict[str, str]:
    """Parts of a sum of methods carry their number: robust/0/term."""
    found: dict[str, str] = {}
    for key in dict.fromkeys(key for row in run.log for key in row):
        parts = key.split("/")
        if len(parts) == 3 and parts[1].isdigit() and f"robust/{parts[2]}" in names:
            found[key] = names[f"robust/{parts[2]}"]
    return found


def eval_curves(run: Run, metric: str) -> dict[str, Points]:
    """The metric over steps for each arm; log rows say `eval_accuracy` or `accuracy`."""
    found: dict[str, Points] = {}
    for arm, label in (("method", run.method), ("baseline", "plain baseline")):
        points = series(run, f"eval_{metric}", "eval", arm) or series(run, metric, "eval", arm)
        if points:
            found[label] = points
    return found


_SHORT = {
    "divergence_perturbation": "the perturbation",
    "divergence_dropout": "another dropout mask",
    "divergence": "the adversary",
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "size of the perturbation, relative": ("delta_relative",),
    "share from the gradient": ("delta_from_gradient",),
    "divergence from the clean prediction": ("divergence",),
    "share of attention left visible": ("budget",),
}


def robust_series(run: Run) -> dict[str, dict[str, Points]]:
    """What the method did, one group a figure: size, share from the gradient, divergences, attention left."""
    seen: dict[str, Points] = {}
    for key in dict.fromkeys(key for row in run.log for key in row if key.startswith("robust/")):
        if points := series(run, key):
            seen[key.removeprefix("robust/")] = points
    found: dict[str, dict[str, Points]] = {}
    for title, wanted in GROUPS.items():
        chosen = {key: points for key, points in seen.items() if key.split("/")[-1].startswith(wanted)}
        if chosen and list(chosen) != ["divergence_dropout"]:  # alone it says nothing about a perturbation
            # One for each of many layers would be too many to tell apart.
            found[title] = {_SHORT.get(key, key): points for key, points in list(chosen.items())[:8]}
    return found


def last(run: Run) -> dict[str, Any]:
    """The last logged value of every robust figure, with its meaning."""
    values: dict[str, float] = {}
    for row in run.log:
        if row.get("arm", "method") == "method":
            for key, value in row.items():
                if key.startswith("robust/") and (number := finite(value)) is not None:
                    values[key.removeprefix("robust/")] = number
    return {key: (number, _meaning(key)) for key, number in sorted(values.items())}


def _meaning(key: str) -> str:
    """Of a figure by its name, which may start with a method's number and end with a layer's."""
    name = key.split("/")[-1]
    return ROBUST.get(name) or ROBUST.get(name.rpartition("_")[0], "")


def late_mean(run: Run, name: str) -> float | None:
    """The mean of a robust figure over the last half of training, over all places and methods that have it."""
    found: list[float] = []
    for key in dict.fromkeys(key for row in run.log for key in row if key.startswith("robust/")):
        if re.fullmatch(rf"{name}(_\d+)?", key.split("/")[-1]):
            points = series(run, key)
            found += [value for _, value in points[len(points) // 2 :]]
    return sum(found) / len(found) if found else None


Answer = Literal["yes", "partly", "no"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    question: str
    answer: Answer
    words: str


def adversarial_checks(run: Run, attacks: Sequence[Attack] = ()) -> list[Finding]:
    """What is known: where the perturbation came from, what it did beside dropout, what an adversary hides."""
    return [*_direction(run), *_effect(run), *_hiding(run), *_beside_noise(attacks)]


def _direction(run: Run) -> Iterator[Finding]:
    share = late_mean(run, "delta_from_gradient")
    if share is None:
        return
    answer: Answer = "yes" if share >= 0.5 else "partly" if share >= 0.1 else "no"
    says = {
        "yes": "the gradient turned it away from its random start",
        "partly": "a good part of it is still its random start",
        "no": "it is its random start, hardly turned: noise under another name",
    }
    yield Finding(
        "Did the gradient find it?",
        answer,
        f"{share:.2f} on a scale from 0 (random) to 1 (the gradient's): {says[answer]}.",
    )


def _effect(run: Run) -> Iterator[Finding]:
    moved, dropout = late_mean(run, "divergence_perturbation"), late_mean(run, "divergence_dropout")
    if moved is None or dropout is None:
        return
    if dropout <= 1e-12:
        yield Finding("Does it do more than dropout?", "yes", "there was no dropout: all of the divergence is its own.")
        return
    ratio = moved / dropout
    answer: Answer = "yes" if ratio >= 1 else "partly" if ratio >= 0.2 else "no"
    says = "" if ratio >= 1 else "; what the model learned to ignore was dropout before all"
    much = f"{ratio:.2f} times as much as" if ratio >= 0.01 else "less than a hundredth of what"
    yield Finding(
        "Does it do more than dropout?", answer, f"it moved predictions {much} another dropout mask did{says}."
    )


def _hiding(run: Run) -> Iterator[Finding]:
    visible = late_mean(run, "budget")
    if visible is None or not 0 <= visible <= 1:  # the authors' variant counts pairs, not shares
        return
    hidden = 1 - visible
    answer: Answer = "yes" if hidden >= 0.02 else "partly" if hidden >= 0.002 else "no"
    says = "" if hidden >= 0.002 else ": it has given up, as hiding costs more than it gains (lower tau)"
    yield Finding("Does the adversary hide attention?", answer, f"{hidden:.1%} of all pairs, late in training{says}.")


def _beside_noise(attacks: Sequence[Attack]) -> Iterator[Finding]:
    """The attack itself: where noise of the same size does as much harm, a flat curve proves nothing."""
    for attack in attacks:
        if attack.arm != "method" or not attack.points or attack.points[-1].noise is None:
            continue
        last = attack.points[-1]
        noise = last.noise or last.score
        lost, by_noise = attack.clean.value - last.score.value, attack.clean.value - noise.value
        answer: Answer = "yes" if last.score.high < noise.low else "partly" if lost > by_noise else "no"
        yield Finding(
            f"Is the attack more than noise? ({attack.title})",
            answer,
            f"at {last.x:g} it costs {lost:.3f} of {attack.metric}, random noise of the same size {by_noise:.3f}.",
        )
