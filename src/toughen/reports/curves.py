"""The log of a run as series to draw."""

from collections.abc import Mapping, Sequence
from typing import Any

from .folder import Run, finite

Points = list[tuple[float, float]]

ROBUST = {
    "delta_relative": "size of the perturbation, relative to what it perturbs",
    "delta_norm": "l2 norm of the perturbation",
    "delta_from_gradient": "share from the gradient (0: random noise, 1: the gradient's work)",
    "divergence_dropout": "divergence under another dropout mask",
    "divergence_perturbation": "divergence under the perturbation",
}


def series(run: Run, key: str, kind: str = "train", arm: str = "method") -> Points:
    """The key over steps, the mean of the seeds that logged the step."""
    found: dict[float, list[float]] = {}
    for row in run.log:
        value, step = finite(row.get(key)), finite(row.get("step"))
        if row.get("kind") == kind and row.get("arm", "method") == arm and value is not None and step is not None:
            found.setdefault(step, []).append(value)
    return [(step, sum(values) / len(values)) for step, values in sorted(found.items())]


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


def robust_figures(run: Run) -> dict[str, dict[str, Points]]:
    """What the method did, one group a figure: size, share from the gradient, divergences."""
    seen: dict[str, Points] = {}
    for key in dict.fromkeys(key for row in run.log for key in row if key.startswith("robust/")):
        if key.split("/")[-1].startswith(tuple(ROBUST)) and (points := series(run, key)):
            seen[key.removeprefix("robust/")] = points
    groups: Sequence[tuple[str, tuple[str, ...]]] = (
        ("size of the perturbation, relative", ("delta_relative",)),
        ("share from the gradient: 0 is noise, 1 the gradient's work", ("delta_from_gradient",)),
        ("divergence from the clean prediction", ("divergence_dropout", "divergence_perturbation")),
    )
    found: dict[str, dict[str, Points]] = {}
    for title, wanted in groups:
        chosen = {key: points for key, points in seen.items() if key.split("/")[-1].startswith(wanted)}
        if chosen:
            found[title] = chosen
    return found


def last(run: Run) -> dict[str, Any]:
    """The last logged value of every robust figure, with its meaning."""
    values: dict[str, float] = {}
    for row in run.log:
        if row.get("arm", "method") == "method":
            for key, value in row.items():
                if key.startswith("robust/") and (number := finite(value)) is not None:
                    values[key.removeprefix("robust/")] = number
    return {key: (number, ROBUST.get(key.split("/")[-1], "")) for key, number in sorted(values.items())}
