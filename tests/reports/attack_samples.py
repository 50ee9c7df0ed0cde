"""Summaries and examples of attacks made by hand, in the form that an evaluation writes."""

import json
import random
from pathlib import Path

WORDS = ["the", "film", "was", "a", "warm", "and", "clever", "story", "about", "people", "who", "never", "give", "up"]


def interval(value: float, error_bars: float = 0.03) -> dict:
    return {"value": value, "low": max(0.0, value - error_bars), "high": min(1.0, value + error_bars)}


def summary(name: str, kind: str, title: str, label: str = "", **changes) -> dict:
    return {
        "toughen": "0",
        "kind": kind,
        "attack": name,
        "title": title,
        "task": "rte",
        "split": "validation",
        "model": "model",
        "label": label,
        "rows": 200,
        "seed": 0,
        "metric": "accuracy",
        "settings": {"queries": 100, "words": 0.2, "keep": ["numbers"]},
        "seconds": 1.5,
        "clean": interval(0.9),
        "curve": None,
        "attacked": None,
        "groups": None,
        "notes": [],
        **changes,
    }


def write(folder: Path, name: str, content: dict, rows: list[dict] | None = None) -> None:
    (folder / "attacks").mkdir(exist_ok=True)
    (folder / "attacks" / f"{name}.json").write_text(json.dumps(content))
    if rows is not None:
        (folder / "attacks" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def add_embedding(folder: Path, strength: float = 3.0, label: str = "") -> None:
    """Accuracy falls with the radius, under noise much less."""
    points = []
    for x in (0.0, 0.01, 0.02, 0.05, 0.1):
        noise = interval(0.9 - x / 2)
        points.append({"x": x, **interval(max(0.05, 0.9 - strength * x))})
        points[-1] |= {"noise": noise["value"], "noise_low": noise["low"], "noise_high": noise["high"]}
    curve = {"axis": "radius", "unit": "share of an embedding's norm", "points": points}
    content = summary("embedding", "embedding", "PGD on embeddings", label, curve=curve)
    write(folder, "embedding" + (f"-{label}" if label else ""), content)


def example(index: int, status: str, text: str, rng: random.Random) -> dict:
    words = text.split()
    changed_at = sorted(rng.sample(range(len(words)), min(2, len(words)))) if status == "succeeded" else []
    changed = [f"{word[::-1]}x" if number in changed_at else word for number, word in enumerate(words)]
    return {
        "index": index,
        "status": status,
        "label": "positive",
        "prediction_before": "negative" if status == "skipped" else "positive",
        "prediction_after": None if status == "skipped" else "negative" if status == "succeeded" else "positive",
        "probability_before": 0.93,
        "probability_after": None if status == "skipped" else 0.71,
        "queries": 0 if status == "skipped" else 37,
        "words_changed": len(changed_at) / max(1, len(words)),
        "original": {"text": text},
        "perturbed": {"text": " ".join(changed)},
        "changed": [["text", number] for number in changed_at],
    }


def add_characters(
    folder: Path, rows: int = 60, fooled: float = 0.5, label: str = "", texts: list[str] | None = None, seed: int = 0
) -> None:
    rng = random.Random(seed)
    made = []
    for index in range(rows):
        text = texts[index % len(texts)] if texts else " ".join(random.Random(index).choices(WORDS, k=6 + index % 15))
        chance = rng.random()
        status = "skipped" if index % 10 == 9 else "succeeded" if chance < fooled else "failed"
        made.append(example(index, status, text, rng))
    counts = {status: sum(row["status"] == status for row in made) for status in ("skipped", "failed", "succeeded")}
    attacked = {
        "accuracy": interval(counts["failed"] / rows),
        "success_rate": interval(counts["succeeded"] / max(1, rows - counts["skipped"])),
        **counts,
        "queries": 41.3,
        "words_changed": 0.12,
        "examples": "attacks/characters.jsonl",
    }
    content = summary("characters", "characters", "character changes", label, attacked=attacked, rows=rows)
    write(folder, "characters" + (f"-{label}" if label else ""), content, made)


def add_noise(folder: Path, label: str = "", lost: float = 0.5) -> None:
    groups = [
        {"name": kind, "points": [{"x": x, **interval(0.9 - lost * weight * x / 2)} for x in (0.1, 0.3, 0.5)]}
        for weight, kind in enumerate(("casing", "punctuation", "typos", "distractors"))
    ]
    content = summary("noise", "noise", "noise suites", label, groups=groups)
    write(folder, "noise" + (f"-{label}" if label else ""), content)
