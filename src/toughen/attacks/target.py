"""A model and the rows it is attacked on; what every attack has in common; what comes of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..tasks import answers_of, interval
from ..tasks.spec import Task
from ..tasks.tokenising import IGNORED
from .attacked_text import Row
from .summary import Curve, Group, Score, TextScores
from .victim import Victim


@dataclass(frozen=True)
class Target:
    """A model, the rows, and what the model says of them unchanged."""

    victim: Victim
    rows: Sequence[Row]
    """Each with the columns of the task and `label`."""
    logits: Any
    """Of the unchanged rows, in float32. Of token tasks the answers, and like the labels those of tagged words only."""
    labels: Any
    split: str = "validation"
    samples: int = 1000
    dir: "Path | None" = None
    """Folder of sets on disk, for the attack `sets`."""
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How files of one's own are read (`label_column`, `delimiter`, ...), for the attack `sets`."""

    @property
    def task(self) -> Task:
        return self.victim.task

    @property
    def decides(self) -> bool:
        """Whether there is one answer a row, right or wrong."""
        return self.task.is_single_label

    @property
    def metric(self) -> str:
        """After an attack a model is judged by accuracy, where the task knows it; else by the task's own metric."""
        return "accuracy" if self.decides else self.task.primary_metric

    def answers(self) -> Any:
        """What the model says of the unchanged rows."""
        return as_answers(self.task, self.logits)

    def said(self, rows: Sequence[Row]) -> list[Any]:
        """The answers to other rows of the same task."""
        logits = self.victim.exact(rows)
        if self.task.head != "tokens":
            return as_answers(self.task, logits)
        tags = [np.asarray(row["labels"]) != IGNORED for row in self.victim.features(rows)]
        left = self.victim.collate.padding_side == "left"
        own = [one[-len(mask) :] if left else one[: len(mask)] for one, mask in zip(logits, tags, strict=True)]
        return [one.argmax(-1)[mask].tolist() for one, mask in zip(own, tags, strict=True)]

    def score(self, answers: Any, metric: str | None = None) -> Score:
        """A metric of answers with its bootstrap interval."""
        return score_with_ci(self.task, answers, self.labels, metric or self.metric, self.samples)

    def outcome(self, answers: Any, metric: str = "accuracy") -> "Outcome":
        """Answers with their labels where the score is another than accuracy: right or wrong does not make it."""
        if self.decides and metric != "accuracy":
            return Outcome(answers, self.labels)
        return outcome(self.task, answers, self.labels)


@dataclass(frozen=True)
class Outcome:
    """Row by row what came of one point, for paired comparisons: right or wrong, or answers with their labels."""

    rows: Any
    labels: Any = None
    """None where the rows say themselves whether they are right."""


def outcome(task: Task, answers: Any, labels: Any) -> Outcome:
    if not task.is_single_label:
        return Outcome(answers, labels)
    return Outcome([bool(right) for right in np.asarray(answers_of(task, np.asarray(answers))) == np.asarray(labels)])


def as_answers(task: Task, logits: Any) -> list[Any]:
    """Logits as answers that JSON can hold and the metrics take; of token tasks they are answers already."""
    if task.head == "tokens":
        return [np.asarray(one).tolist() for one in logits]
    values = np.asarray(logits)
    if task.head == "regression":
        return values.reshape(len(values)).astype(float).tolist()
    return (values > 0).astype(int).tolist() if task.head == "multilabel" else values.argmax(axis=-1).tolist()


def score_with_ci(task: Task, answers: Any, labels: Any, metric: str, samples: int) -> Score:
    """A metric of answers with its bootstrap interval."""
    answers = answers if task.head == "tokens" else np.asarray(answers)
    found = interval(task, answers, labels, metric, samples=samples)
    return Score(found.value, found.low, found.high)


class Attack(Protocol):
    """An attack: pieces of work by number, each a row that is kept, and the summary of all of them."""

    @property
    def name(self) -> str: ...  # as given on the command line

    @property
    def kind(self) -> str: ...

    @property
    def title(self) -> str: ...  # words for people

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def examples(self) -> bool: ...  # whether a row is an attacked example that people read

    def check(self, task: Task) -> None: ...  # refuse tasks it is not for

    def cache_key(self, target: Target) -> Sequence[Any]: ...  # what else than settings, rows and weights it depends on

    def num_items(self, target: Target) -> int: ...

    def run_items(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]: ...

    def summarize(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> "AttackScores": ...


@dataclass(frozen=True)
class AttackScores:
    """The scores of an attack (one of `curve`, `attacked` and `groups`), and the outcome of every row at each point."""

    outcomes: Mapping[str, Outcome]
    notes: Sequence[str] = ()
    curve: Curve | None = None
    attacked: TextScores | None = None
    groups: Sequence[Group] | None = None
    metric: str | None = None
    """If it is another than the target's."""
    rows: int | None = None
    """If they are others than the target's."""


def proportion_ci(right: Sequence[bool], samples: int, seed: int = 0) -> Score | None:
    """The share that is true with its percentile bootstrap interval: resamples of yes and no are binomial."""
    count = len(right)
    if not count:
        return None
    value = sum(right) / count
    drawn = np.random.default_rng(seed).binomial(count, value, size=samples) / count
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Score(value, float(low), float(high))
