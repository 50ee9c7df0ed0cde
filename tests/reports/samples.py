"""Run folders made by hand, in the form that training writes."""

import json
import random
from pathlib import Path

LABELS = ("entailment", "not_entailment")


def seed_entry(seed: int, score: float, step: float, arm: str) -> dict:
    return {
        "seed": seed,
        "metrics": {"accuracy": score, "f1": score - 0.01},
        "best_epoch": 2.0,
        "train_seconds": 100 * step,
        "passes": {"forward": 1.0, "backward": 1.0} if arm == "baseline" else {"forward": 3.0, "backward": 2.0},
        "seconds_per_step": step,
        "peak_memory_mb": None,
        "folder": f"{'seeds' if arm == 'method' else 'baseline'}/{seed}",
    }


def log_rows(arm: str, seed: int, robust: bool) -> list[dict]:
    rows = []
    for step in range(10, 101, 10):
        row = {
            "seed": seed,
            "arm": arm,
            "step": step,
            "epoch": step / 50,
            "kind": "train",
            "loss": 1 / step + seed / 100,
        }
        if robust:
            row |= {"robust/loss_clean": 0.8 / step, "robust/term": 0.1, "robust/delta_relative": 0.03}
            row |= {"robust/delta_from_gradient": 0.9, "robust/delta_norm": 0.4, "robust/forwards": 3.0}
            row |= {"robust/divergence_dropout": 0.02, "robust/divergence_perturbation": 0.05} if step % 50 == 0 else {}
        rows.append(row)
        if step % 50 == 0:
            rows.append({"seed": seed, "arm": arm, "step": step, "kind": "eval", "eval_accuracy": 0.5 + step / 400})
    return rows


def write_predictions(folder: Path, score: float, seed: int, rows: int = 60) -> None:
    rng = random.Random(seed)
    lines = ["index\tprediction\tlabel\tprobabilities"]
    for index in range(rows):
        label = index % 2
        answer = label if rng.random() < score else 1 - label
        sure = 0.6 + 0.3 * rng.random()
        spread = [sure, 1 - sure] if answer == 0 else [1 - sure, sure]
        lines.append(f"{index}\t{LABELS[answer]}\t{LABELS[label]}\t{json.dumps(spread)}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "validation.tsv").write_text("\n".join(lines) + "\n")


def make_run(
    folder: Path, method: str = "smart", scores=(0.70, 0.72, 0.71), plain=None, step: float = 0.3, task="rte"
) -> Path:
    folder.mkdir(parents=True)
    seeds = [
        seed_entry(n, score, step, "baseline" if method == "plain" else "method") for n, score in enumerate(scores, 1)
    ]
    for entry in seeds:
        entry["folder"] = f"seeds/{entry['seed']}"
        write_predictions(folder / entry["folder"] / "predictions", entry["metrics"]["accuracy"], entry["seed"])
    rows = [row for entry in seeds for row in log_rows("method", entry["seed"], method != "plain")]
    baseline = None
    if plain:
        parts = [seed_entry(n, score, step / 3, "baseline") for n, score in enumerate(plain, 1)]
        baseline = {"seeds": parts, "mean": {}, "sd": {}, "median": {}}
        rows += [row for entry in parts for row in log_rows("baseline", entry["seed"], False)]
        for entry in parts:
            write_predictions(
                folder / entry["folder"] / "predictions", entry["metrics"]["accuracy"], 90 + entry["seed"]
            )
    results = {
        "toughen": "0",
        "task": task,
        "model": "tiny",
        "head": None,
        "method": {"name": method, "settings": {"weight": 1.0}, "repr": f"{method}()"},
        "metric": "accuracy",
        "higher_is_better": True,
        "seeds": seeds,
        "mean": {"accuracy": sum(scores) / len(scores)},
        "sd": {},
        "median": {},
        "baseline": baseline,
        "data": {"train": 2490, "validation": 60},
        "versions": {"torch": "2.13"},
        "hardware": {"device": "cpu"},
        "notes": ["a note"],
    }
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.yaml").write_text("task: rte\nmethod:\n  name: smart\n")
    return folder


def add_evaluation(folder: Path, name: str, value: float) -> None:
    (folder / "evaluations").mkdir(exist_ok=True)
    content = {
        "name": name,
        "metric": "accuracy",
        "rows": 60,
        "metrics": {"accuracy": {"value": value, "low": value - 0.05, "high": value + 0.05}},
        "confusion": {"labels": list(LABELS), "counts": [[20, 10], [5, 25]]},
        "calibration": {
            "ece": 0.1,
            "bins": [{"low": 0.5, "high": 1.0, "rows": 60, "confidence": 0.8, "accuracy": value}],
        },
        "slices": {
            "length in tokens": [
                {"name": "3-9", "rows": 30, "accuracy": 0.8},
                {"name": "10-20", "rows": 30, "accuracy": 0.6},
            ]
        },
    }
    (folder / "evaluations" / f"{name}.json").write_text(json.dumps(content))
