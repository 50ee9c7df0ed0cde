"""A small protocol, sets as files, and a tiny random model: everything from preparation to table in seconds."""

import json
import random
from pathlib import Path
from typing import Any

from benchmarks.leaderboard.prepare import prepare
from benchmarks.leaderboard.protocol import Protocol, TaskPlan

from ..tiny import BAD, GOOD, OTHER, save_model


def sentence(dice: random.Random, good: bool) -> str:
    words = dice.choices(OTHER, k=dice.randint(3, 9))
    words.insert(dice.randrange(len(words)), dice.choice(GOOD if good else BAD))
    return " ".join(words)


def row(task: str, number: int, dice: random.Random) -> dict[str, Any]:
    label = number % 2
    if task == "sst2":
        return {"sentence": sentence(dice, bool(label)), "label": label}
    if task in ("rte", "stsb"):
        pair = {"sentence1": sentence(dice, True), "sentence2": sentence(dice, not label)}
        return {**pair, "label": label if task == "rte" else 5.0 - 5 * label + dice.random() / 10}
    if task == "wnut17":
        words = sentence(dice, True).split()
        return {"tokens": words, "ner_tags": ["B-person" if word in GOOD else "O" for word in words]}
    choices = [sentence(dice, place == number % 3) for place in range(3)]
    return {
        "dialogue": [sentence(dice, True)],
        "question": "is a film",
        "choice": choices,
        "answer": choices[number % 3],
    }


def write_sets(folder: Path, tasks: tuple[str, ...], train: int = 60, dev: int = 24) -> Path:
    for task in tasks:
        for split, count, seed in (("train", train, 0), ("validation", dev, 1)):
            dice = random.Random(seed)
            (folder / task).mkdir(parents=True, exist_ok=True)
            lines = [json.dumps({**row(task, number, dice), "idx": number}) for number in range(count)]
            (folder / task / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def plan(name: str, metric: str = "accuracy", epochs: int = 2, **changes: Any) -> TaskPlan:
    return TaskPlan(name, metric, epochs, (8, 16, 32), **{"held_rows": 16, "attacked_rows": 12, **changes})


def protocol(**changes: Any) -> Protocol:
    settings: dict[str, Any] = {
        "tasks": (plan("sst2"), plan("rte")),
        "methods": {
            "plain": ({},),
            "fgm": ({}, {"step_size": 0.1}),
            "fgm tuned": ({"step_size": 0.2}, {"step_size": 0.3}),
        },
        "authors": {},
        "text_methods": {},
        "text_tasks": (),
        "rates": (1e-3, 3e-3),
        "batch_size": 8,
        "tuning_model": "tiny",
        "tuning_tasks": ("sst2",),
        "tuning_seeds": (101,),
        "rounds": ((1,), (2,)),
        "mean_tasks": ("sst2", "rte"),
        "more_epochs": (2,),
        "radii": (0.1, 0.3),
        "reference": 0.3,
        "steps": 2,
        "strengths": (0.3,),
        "text_rows": 5,
        "text_queries": 6,
        "text_words": 1.0,
    }
    return Protocol(**{**settings, **changes})


def prepared(folder: Path, what: Protocol, train: int = 60, prune: bool = False, texts: bool = False) -> Path:
    model = save_model(folder / "model")
    sets = write_sets(folder / "sets", tuple(task.name for task in what.tasks), train)
    sources: dict[str, Any] = {"synonyms": synonyms(folder), "lexicon": folder / "lexicon.txt"} if texts else {}
    return prepare(model, "tiny", sets, folder / f"tiny{prune}.safetensors", what, prune=prune, **sources)


def synonyms(folder: Path) -> dict[str, Path]:
    """Two sources, and misspellings beside them."""
    words = [*GOOD, *BAD, *OTHER]
    for name, step in (("near", 1), ("far", 7)):
        table = {word: [words[(number + step) % len(words)]] for number, word in enumerate(words)}
        (folder / f"{name}.json").write_text(json.dumps(table))
    (folder / "lexicon.txt").write_text("\n".join(f"{word} {word[:-1]}" for word in words))
    return {"near": folder / "near.json", "far": folder / "far.json"}
