"""Measure trials on the selection rows: answers, attacks, and differences from plain training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from ..attacks.paired import differences
from ..attacks.runner import AttackResult
from ..attacks.suite import AttackSettings, make_attacks
from ..evaluation.evaluate_model import evaluate
from ..reports.folder import read_run
from ..runs.errors import RunError
from ..sweeps.api import Sweep
from ..sweeps.leaderboard import Row
from ..sweeps.trials import scores
from ..tasks import difference, interval
from ..tasks.spec import DataError, Task
from .ladder import Threat
from .rule import Candidate, Change

ATTACKED_ROWS = 400  # at most so many rows are attacked


@dataclass(frozen=True)
class Trial:
    """A finished trial of a sweep."""

    sweep: Sweep
    row: Row
    seed: int

    @property
    def folder(self) -> Path:
        return self.sweep.path / "trials" / f"{self.row.number:03}-seed{self.seed}"

    def answers(self, task: Task) -> tuple[list[Any], list[Any]]:
        """Return the answers to the selection rows and their labels, as numbers."""
        predictions = read_run(self.folder).predictions(self.seed)
        if predictions is None or predictions.labels is None:
            raise RunError(f"{self.folder} has no predictions of the selection rows; delete it to train it again.")
        answers, labels = ([_number(task, cell) for cell in each] for each in (predictions.answers, predictions.labels))
        return answers, labels


@dataclass(frozen=True)
class Ruler:
    """The threat as it is measured on one task."""

    task: Task
    threat: Threat
    rows: int
    """Selection rows."""
    attacked: dict[Path, Sequence[AttackResult]] = field(default_factory=dict[Path, Sequence[AttackResult]])
    """What the attacks on trials gave, by folder."""

    @cached_property
    def points(self) -> Mapping[str, str]:
        """The attacks that fit the task, with the point that counts."""
        points: dict[str, str] = {}
        for attack in make_attacks(list(self.threat.points), self.settings) if self.threat.points else ():
            try:
                attack.check(self.task)
            except DataError:
                if len(self.threat.points) == 1:
                    raise
                continue
            points[attack.name] = self.threat.points[attack.name]
        return points

    @property
    def left_out(self) -> list[str]:
        return [attack for attack in self.threat.points if attack not in self.points]

    @property
    def settings(self) -> AttackSettings:
        return AttackSettings(**self.threat.options)

    def measure(self, trial: Trial, plain: Trial) -> Candidate:
        """Measure a trial against plain training; one that is below it beyond noise is not attacked."""
        clean, metric = trial.row.mean, trial.sweep.metric
        assert clean is not None  # it is finished
        candidate = Candidate(trial.row.settings, clean, trial.row.seconds)
        if trial is not plain:
            answers, labels = trial.answers(self.task)
            paired = difference(self.task, answers, plain.answers(self.task)[0], labels, metric)
            candidate = replace(candidate, clean_change=Change(paired.value, paired.low, paired.high))
            if paired.high < 0:
                return candidate
        if not self.points:
            return candidate
        attacks = self.attacks(trial)
        candidate = replace(candidate, robust=self.robustness(attacks))
        if trial is plain:
            return candidate
        pairs = differences(attacks, self.attacks(plain))
        counted = [
            (each.difference, each.low, each.high) for each in pairs if self.points.get(each.attack) == each.point
        ]
        return replace(candidate, robust_change=Change(*map(fmean, zip(*counted, strict=True))))

    def attacks(self, trial: Trial) -> Sequence[AttackResult]:
        """Attack a trial on the selection rows, once."""
        if trial.folder not in self.attacked:
            limit = ATTACKED_ROWS if self.rows > ATTACKED_ROWS else None
            (self.attacked[trial.folder],) = self.attack(trial.folder, limit)
        return self.attacked[trial.folder]

    def seconds(self, trial: Trial) -> float:
        """Return what the attacks on a trial take."""
        return sum(each.summary.seconds for each in self.attacks(trial)) if self.points else 0.0

    def attack(self, run: Path, limit: int | None, **options: Any) -> list[Sequence[AttackResult]]:
        """Attack the models of a run; what an earlier start finished is read again."""
        found = evaluate(run, attack=list(self.points), settings=self.settings, limit=limit, **options)
        return [each.attacks for each in found]

    def robustness(self, attacks: Sequence[AttackResult]) -> float:
        """Return the mean score under the attacks."""
        return fmean(_score(each, self.points[each.summary.attack]) for each in attacks)

    def least(self, plain: Trial) -> float:
        """Return the score below which a trial is stopped: plain's after its first epoch, less the width of noise."""
        noise = interval(self.task, *plain.answers(self.task), plain.sweep.metric)
        return scores(plain.folder, plain.sweep.metric)[0] - (noise.high - noise.low)


def _number(task: Task, cell: str) -> Any:
    """Return a cell of a table of predictions as the number or numbers of an answer."""
    if task.head == "regression":
        return float(cell)
    if task.head == "multilabel":
        names = json.loads(cell)
        return [int(name in names) for name in task.labels]
    if task.head == "tokens":
        return [task.labels.index(name) for name in json.loads(cell)]
    return task.labels.index(cell)


def _score(attack: AttackResult, point: str) -> float:
    summary = attack.summary
    if summary.attacked is not None:
        return summary.attacked.accuracy.value if summary.attacked.accuracy else 0.0
    groups = {f"{group.name} {each.x:g}": each for group in summary.groups or () for each in group.points}
    radii = {f"radius {each.x:g}": each for each in (summary.curve.points if summary.curve else ())}
    return (groups | radii)[point].score.value
