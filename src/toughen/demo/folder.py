"""The arms of one method as a run folder, so that reports and comparisons read them like any run."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..evaluation.measures import measure, probabilities
from ..evaluation.outputs import Outputs
from ..internal.atomic import write_json, write_text
from ..statistics import summarise
from .arms import MAX_LENGTH, Arm, Settings
from .encoder import SENTIMENT, Encoder
from .grammar import LABELS, SPLITS


def notes(encoder: Encoder) -> list[str]:
    """What a reader must know about these numbers."""
    real = "The encoder's weights are real." if encoder.folder else "The encoder is random, too."
    return [
        *((encoder.notice,) if encoder.notice else ()),
        "All texts are synthetic: they come from a grammar inside toughen, and a tenth of the training labels are "
        f"wrong on purpose. {real}",
        "The model of the last epoch is evaluated; nothing was selected on the splits shown.",
    ]


def right(outputs: Outputs) -> Any:
    """Which rows were answered rightly."""
    return np.argmax(outputs.logits, axis=1) == outputs.labels


def accuracy(outputs: Outputs) -> float:
    return float(np.mean(right(outputs)))


def write_run(
    folder: Path, arms: Sequence[Arm], encoder: Encoder, settings: Settings, rows: dict[str, int], said: Sequence[str]
) -> Path:
    """results.json, metrics.jsonl, config.yaml, predictions and one evaluation a split (all seeds' rows together)."""
    name = arms[0].method
    seeds = [_seed(arm) for arm in arms]
    scores = {key: [seed["metrics"][key] for seed in seeds] for key in seeds[0]["metrics"]}
    spread = {key: summarise(values) for key, values in scores.items()}
    write_json(
        folder / "results.json",
        {
            "toughen": __version__,
            "task": SENTIMENT.name,
            "model": encoder.name,
            "head": None,
            "method": {"name": name, "settings": {}, "repr": f"{name}()"},
            "metric": "accuracy",
            "higher_is_better": True,
            "seeds": seeds,
            "mean": {key: each.mean for key, each in spread.items()},
            "sd": {key: each.sd for key, each in spread.items()},
            "median": {key: each.median for key, each in spread.items()},
            "baseline": None,
            "data": rows,
            "versions": {"python": platform.python_version(), **{p: version(p) for p in ("torch", "transformers")}},
            "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "threads": _threads()},
            "notes": list(said),
        },
    )
    log = [json.dumps(row) for arm in arms for row in _log(arm)]
    write_text(folder / "metrics.jsonl", "".join(f"{line}\n" for line in log))
    write_text(folder / "config.yaml", _config(name, encoder, settings, [arm.seed for arm in arms]))
    for arm in arms:
        write_text(folder / "seeds" / str(arm.seed) / "predictions" / "validation.tsv", _tsv(arm.outputs["clean"]))
    together = "The seeds answered the same rows, which the interval takes for rows of their own: it is too narrow."
    for split in SPLITS:
        told = [SPLITS[split], *([together] if len(arms) > 1 else [])]
        evaluation = measure(SENTIMENT, pooled(arms, split), name=split, split=split, notes=told)
        write_json(folder / "evaluations" / f"{split}.json", {"toughen": __version__, **evaluation.to_dict()})
    return folder


def pooled(arms: Sequence[Arm], split: str) -> Outputs:
    """The rows of a split as all seeds answered them, one seed after the other."""
    found = [arm.outputs[split] for arm in arms]
    return Outputs(
        np.concatenate([each.logits for each in found]),
        np.concatenate([each.labels for each in found]),
        np.concatenate([each.lengths for each in found]),
    )


def _seed(arm: Arm) -> dict[str, Any]:
    metrics = {"accuracy": accuracy(arm.outputs["clean"])}
    metrics |= {split: accuracy(arm.outputs[split]) for split in SPLITS if split != "clean"}
    trained = [row for row in arm.log if "loss" in row]
    passes = {
        key: float(np.mean([row.get(f"robust/{key}s", 1.0) for row in trained])) if trained else 1.0
        for key in ("forward", "backward")
    }
    return {
        "seed": arm.seed,
        "metrics": metrics,
        "best_epoch": max((float(row.get("epoch") or 0) for row in arm.log), default=None),
        "train_seconds": arm.seconds,
        "passes": passes,
        "seconds_per_step": arm.seconds / max(1, arm.steps),
        "peak_memory_mb": None,
        "folder": f"seeds/{arm.seed}",
    }


def _log(arm: Arm) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in arm.log:
        kind = "train" if "loss" in row else "eval" if "eval_accuracy" in row else None
        if kind:
            rows.append({"seed": arm.seed, "arm": "method", "kind": kind, **row})
    return rows


def _tsv(outputs: Outputs) -> str:
    spread = probabilities(SENTIMENT, outputs.logits)
    lines = ["index\tprediction\tlabel\tprobabilities"]
    for index, (row, label) in enumerate(zip(spread, outputs.labels, strict=True)):
        chances = json.dumps([round(float(each), 6) for each in row])
        lines.append(f"{index}\t{LABELS[int(row.argmax())]}\t{LABELS[int(label)]}\t{chances}")
    return "\n".join(lines) + "\n"


def _config(name: str, encoder: Encoder, settings: Settings, seeds: list[int]) -> str:
    import yaml

    values = {
        "task": SENTIMENT.name,
        "model": encoder.name,
        "method": {"name": name},
        "data": {"max_length": MAX_LENGTH},
        "train": {
            "learning_rate": settings.learning_rate,
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "warmup": settings.warmup,
        },
        "seed": seeds,
    }
    return yaml.safe_dump(values, sort_keys=False)


def _threads() -> int:
    import torch

    return torch.get_num_threads()
