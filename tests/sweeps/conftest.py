"""A tiny sweep as values, and a stand-in for trials whose scores are a formula of their settings."""

import json
from pathlib import Path

import pytest
import yaml

from toughen.sweeps.api import run_trials
from toughen.sweeps.controller import Controller
from toughen.sweeps.folder import open_folder
from toughen.sweeps.loading import load_definition
from toughen.sweeps.progress import SweepProgress
from toughen.sweeps.trials import note_attempt
from toughen.sweeps.worker import Event

from ..runs.conftest import little as little


@pytest.fixture
def values(little):
    """A grid of four settings on the tiny model."""
    return {
        "base": {"model": little.model, "data": little.data, "train": {**little.train, "epochs": 1}, "method": "r3f"},
        "search": "grid",
        "metric": {"name": "accuracy", "goal": "maximize"},
        "parameters": {
            "method.weight": {"values": [0.5, 1.0]},
            "train.learning_rate": {"values": [1e-3, 3e-3]},
        },
    }


class Pretender:
    """A worker that trains nothing: `score(settings, seed, iteration)` is written as a run would write it."""

    def __init__(self, score, iterations: int = 3, at_most: int | None = None) -> None:
        self.score, self.iterations, self.left = score, iterations, at_most
        self.started: list[str] = []
        self.stopped: list[str] = []

    def start(self, folder: Path) -> None:
        if self.left is not None:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
        self.started.append(folder.name)
        self.folder, self.at = folder, 0
        self.config = yaml.safe_load((folder / "config.yaml").read_text())

    def poll(self) -> Event:
        seed = self.config["seed"][0]
        if self.at == self.iterations:
            value = self.score(self.config, seed, self.at)
            seeds = [{"seed": seed, "metrics": {"accuracy": value}, "train_seconds": 1.0}]
            done = {"seeds": seeds, "mean": {"accuracy": value}}
            (self.folder / "results.json").write_text(json.dumps(done))
            return Event("done", self.at, value)
        self.at += 1
        try:
            value = self.score(self.config, seed, self.at)
        except ArithmeticError as error:
            note_attempt(self.folder, str(error), True)
            return Event("failed", error=str(error))
        row = {"arm": "method", "step": self.at, "kind": "eval", "eval_accuracy": value}
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        return Event("score", self.at, value)

    def stop(self) -> None:
        self.stopped.append(self.folder.name)

    def close(self) -> None:
        pass


@pytest.fixture
def pretend(values, tmp_path, capsys):
    """`pretend(score, trials=..., **changes)`: run pretended trials; gives the controller and the pretender."""

    def run(score, name: str = "sweep", resume: bool = False, iterations: int = 3, at_most=None, **changes):
        definition, _ = load_definition({**values, **changes})
        folder = open_folder(tmp_path / name, definition, resume)
        controller = Controller(folder, "accuracy", SweepProgress(tmp_path / name / "sweep.log", live=False))
        worker = Pretender(score, iterations, at_most)
        try:
            run_trials(controller, lambda: worker)
        except KeyboardInterrupt:
            pass
        finally:
            folder.close()
        return controller, worker

    return run
