"""One run as a section of a page: what was trained, how it learned, what the perturbation did, cost, calibration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import charts
from .attacks import Attack
from .comparison import cost_against_plain
from .drawing import Drawing
from .evaluations import confusion_charts, reliability_charts
from .folder import Run
from .formatting import format_passes, number
from .training_log import adversarial_checks, eval_curves, last, loss_parts, robust_series

PLAIN = "plain baseline"
LETTERS, LINES = 40_000, 60  # of a config, and of seeds, notes, figures and slices: no run may burst its page


@dataclass(frozen=True)
class Section:
    """One run: values for the template, and drawings by the part of the page they belong to."""

    values: dict[str, Any]
    drawings: dict[str, list[Drawing]]


def run_section(run: Run, attacks: Sequence[Attack] = ()) -> Section:
    """Everything the folder of a run holds, as far as it is there."""
    results = run.results
    metrics = list(dict.fromkeys(name for seed in run.seeds() for name in seed["metrics"]))
    values = {
        "name": run.name,
        "metric": run.metric,
        "about": _about(run),
        "metrics": metrics,
        "seeds": [_seed(run, seed, arm, metrics) for arm in ("method", "baseline") for seed in run.seeds(arm)][:LINES],
        "findings": adversarial_checks(run, attacks),
        "perturbed": run.method != "plain",
        "robust": [(key, f"{value:.4g}", meaning) for key, (value, meaning) in last(run).items()][:LINES],
        "cost": _cost(run),
        "slices": _slices(run)[:LINES],
        "notes": [_cut(str(note), 2000) for note in results.get("notes") or ()][:LINES],
        "config": _cut(run.config, LETTERS),
        "versions": {**(results.get("versions") or {}), "toughen": results.get("toughen", "")},
        "hardware": _cut(json.dumps(results.get("hardware") or {}, ensure_ascii=False), 2000),
    }
    drawings = {
        "learning": _learning(run),
        "adversarial": [
            charts.lines(title, lines, note=_NOTES.get(title, "")) for title, lines in robust_series(run).items()
        ],
        "cost": _cost_drawing(run),
        "calibration": [*reliability_charts(run), *confusion_charts(run)],
        "attention": _attention(run),
        "spectrum": _spectrum(run),
    }
    return Section(values, drawings)


_NOTES = {
    "size of the perturbation, relative": "Its norm as a share of the norm of what it perturbs.",
    "share from the gradient": "0 is random noise, 1 the gradient's work.",
    "divergence from the clean prediction": "Under the perturbation, and under another dropout mask alone.",
    "share of attention left visible": "What the adversary does not hide; hiding has its price.",
}


def _about(run: Run) -> list[tuple[str, str]]:
    results = run.results
    method: Mapping[str, Any] = results["method"]
    settings = ", ".join(f"{key}={value}" for key, value in (method.get("settings") or {}).items())
    data: Mapping[str, Any] = results.get("data") or {}
    facts = {
        "task": str(results["task"]),
        "model": str(results.get("model", "")),
        "head": str(results.get("head") or ""),
        "method": f"{method['name']}({settings})",
        "in full": str(method.get("repr") or ""),
        "rows": ", ".join(f"{name} {rows:,}" for name, rows in data.items() if isinstance(rows, int)),
        "seeds": ", ".join(str(seed["seed"]) for seed in run.seeds()),
        "selected by": f"{run.metric} on the validation rows",
    }
    return [(term, _cut(words, 4000)) for term, words in facts.items() if words]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} letters in all)"


def _seed(run: Run, seed: Mapping[str, Any], arm: str, metrics: Sequence[str]) -> dict[str, Any]:
    found: Mapping[str, float] = seed["metrics"]
    return {
        "name": f"{run.method if arm == 'method' else PLAIN}, seed {seed['seed']}",
        "scores": [number(found.get(metric)) for metric in metrics],
        "epoch": number(seed.get("best_epoch"), "{:g}"),
        "seconds": number(seed.get("train_seconds"), "{:.1f}"),
        "memory": number(seed.get("peak_memory_mb"), "{:.0f}"),
    }


def _learning(run: Run) -> list[Drawing]:
    drawn: list[Drawing] = []
    if parts := loss_parts(run):
        note = "Means over seeds." if len(run.seeds()) > 1 else ""
        drawn.append(charts.lines("loss and its parts", parts, dashed=("loss, plain baseline",), note=note))
    if curve := eval_curves(run, run.metric):
        drawn.append(charts.lines(f"{run.metric} while training", curve, y=run.metric, dashed=(PLAIN,)))
    return drawn


_COSTS = {
    "seconds_per_step": "seconds a step",
    "train_seconds": "seconds of training",
    "forward": "forward passes a step",
    "backward": "backward passes a step",
    "peak_memory_mb": "peak memory, MB",
}


def _cost(run: Run) -> dict[str, Any]:
    ours, plain, times = cost_against_plain(run)
    rows = [
        {
            "name": name,
            "ours": number(ours.get(key), "{:.4g}"),
            "plain": number(plain.get(key), "{:.4g}"),
            "times": number(times.get(key), "{:.2f}x"),
        }
        for key, name in _COSTS.items()
        if key in ours
    ]
    return {"rows": rows, "plain": bool(plain), "passes": format_passes(ours)}


def _cost_drawing(run: Run) -> list[Drawing]:
    _, _, times = cost_against_plain(run)
    names = {key: name.removesuffix(" a step").removesuffix(", MB") for key, name in _COSTS.items()}
    names["seconds_per_step"] = "time of a step"
    shown = {name: times[key] for key, name in names.items() if key in times}
    return [charts.ratios("cost against plain fine-tuning", shown)] if shown else []


def _diagnostics(run: Run, name: str) -> dict[str, Any] | None:
    best = run.best()
    return run.diagnostics(name, int(best["seed"])) if best else None


def _attention(run: Run) -> list[Drawing]:
    """Of the best seed: a few texts as the model reads them, and with what its adversary hid."""
    diagnostics = _diagnostics(run, "attention")
    if not diagnostics:
        return []
    drawn: list[Drawing] = []
    for index, text in enumerate(diagnostics["texts"], start=1):
        note = "Crossed out: hidden in one draw, as training draws."
        parts = (text["tokens"], text["clean"], text["adversarial"], text["hidden"])
        drawn.append(charts.attention(f"attention, layer {diagnostics['layer']}, text {index}", *parts, note=note))
    hidden = {layer: float(share) for layer, share in diagnostics["hidden_by_layer"].items()}
    if len(hidden) > 1:
        bars = {layer: {"hidden": (share, share, share)} for layer, share in hidden.items()}
        drawn.append(charts.bars("share of pairs hidden, by layer", bars, note=f"Over {diagnostics['rows']} texts."))
    return drawn


def _spectrum(run: Run) -> list[Drawing]:
    diagnostics = _diagnostics(run, "spectrum")
    if not diagnostics:
        return []
    ranks = [f"{diagnostics[part]['effective_rank']:.1f}" for part in ("before", "after")]
    note = f"Mean over {diagnostics['rows']} texts, and the middle 80 %. "
    note += f"Effective rank {ranks[0]} before, {ranks[1]} after."
    parts = {"pooled covariance": diagnostics["before"], f"after {diagnostics['normalization']}": diagnostics["after"]}
    return [charts.spectrum("singular values of the second-order head", parts, note=note)]


def _slices(run: Run) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for name, evaluation in run.evaluations.items():
        metric = evaluation.get("metric", run.metric)
        for kind, rows in (evaluation.get("slices") or {}).items():
            cells = [{"name": r["name"], "rows": r["rows"], "score": number(r[metric])} for r in rows if metric in r]
            if len(cells) > 1:
                found.append((f"{name}, by {kind}", cells))
    return found
