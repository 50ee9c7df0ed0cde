"""A model and the rows it is attacked on, with its answers to the unchanged rows; answers and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..tasks import answers_of, interval
from ..tasks.calibration import fit_temperature
from ..tasks.spec import Task
from ..tasks.tokenising import IGNORED
from .base import Outcome, Row
from .summary import Score
from .victim import TextVictim, Victim

TIE = 1e-3  # of a usual margin: rounding must not undo a success later


@dataclass(frozen=True)
class Target:
    """A model, the rows, and the model's answers to the unchanged rows.

    Args:
        victim: The model.
        labels: The label of each row.
        split: The split the rows are of.

    Examples:
        >>> rows = [{"premise": "w5 w6", "hypothesis": "w7", "label": number} for number in range(3)]
        >>> target = toughen.evaluation.Target(victim, rows, victim.exact(rows), [0, 1, 2])
        >>> target.metric
        'accuracy'
    """

    victim: TextVictim
    rows: Sequence[Row]
    """Each with the columns of the task and `label`."""
    logits: Any
    """Of the unchanged rows, in float32. Of token tasks the answers, and like the labels those of tagged words only."""
    labels: Any
    split: str = "validation"
    samples: int = 1000
    """Bootstrap samples of an interval."""
    dir: Path | None = None
    """Folder of sets on disk, for the attack `sets`."""
    reading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options that read the user's own files (`label_column`, `delimiter`, ...), for the attack `sets`."""

    @property
    def task(self) -> Task:
        return self.victim.task

    @property
    def has_weights(self) -> bool:
        """Whether the victim is a model of transformers, and not a function."""
        return isinstance(self.victim, Victim)

    @property
    def white_box(self) -> Victim:
        """The victim with its weights and its tokenizer."""
        assert isinstance(self.victim, Victim)  # `run_attack` refuses the others
        return self.victim

    @property
    def metric(self) -> str:
        """Accuracy if a row has one answer, right or wrong; else the task's own metric."""
        return "accuracy" if self.task.is_single_label else self.task.primary_metric

    @cached_property
    def margins(self) -> Any:
        """The margin of each unchanged row: the lead of the best wrong class, below 0 where the answer is right."""
        return np.asarray(list(map(self.victim.scorer.margin, self.logits, map(int, self.labels))))

    @cached_property
    def tie(self) -> float:
        """The margin up to which a text counts as neither right nor wrong: a share of the median margin."""
        return TIE * float(np.median(np.abs(self.margins))) if len(self.margins) else 0.0

    @cached_property
    def temperature(self) -> float:
        """The temperature at which probabilities of the unchanged rows are the likeliest."""
        return fit_temperature(-self.margins)

    def answers(self) -> list[Any]:
        """Return the answers to the unchanged rows."""
        return as_answers(self.task, self.logits)

    def score(self, answers: object, metric: str | None = None) -> Score:
        """Return a metric of answers with its bootstrap interval."""
        return score_with_ci(self.task, answers, self.labels, metric or self.metric, self.samples)

    def outcome(self, answers: object, metric: str = "accuracy") -> Outcome:
        """Return answers as right or wrong if accuracy is their score, else with their labels."""
        return outcome(self.task, answers, self.labels) if metric == "accuracy" else Outcome(answers, self.labels)


def predict(victim: TextVictim, rows: Sequence[Row]) -> list[Any]:
    """Return a model's answers to rows; of token tasks those of tagged words."""
    logits = victim.exact(rows)
    if not isinstance(victim, Victim) or victim.task.head != "tokens":
        return as_answers(victim.task, logits)
    tags = [np.asarray(row["labels"]) != IGNORED for row in victim.features(rows)]
    left = victim.collate.padding_side == "left"
    own = [one[-len(mask) :] if left else one[: len(mask)] for one, mask in zip(logits, tags, strict=True)]
    return [one.argmax(-1)[mask].tolist() for one, mask in zip(own, tags, strict=True)]


def outcome(task: Task, answers: object, labels: object) -> Outcome:
    """Return answers as right or wrong if a row has one answer, else with their labels."""
    if not task.is_single_label:
        return Outcome(answers, labels)
    return Outcome([bool(right) for right in np.asarray(answers_of(task, np.asarray(answers))) == np.asarray(labels)])


def as_answers(task: Task, logits: Any) -> list[Any]:
    """Return logits as answers that JSON can hold and metrics take; those of token tasks are answers already."""
    if task.head == "tokens":
        return [np.asarray(one).tolist() for one in logits]
    values = np.asarray(logits)
    if task.head == "regression":
        return values.reshape(len(values)).astype(float).tolist()
    return (values > 0).astype(int).tolist() if task.head == "multilabel" else values.argmax(axis=-1).tolist()


def score_with_ci(task: Task, answers: object, labels: object, metric: str, samples: int) -> Score:
    """Return a metric of answers with its bootstrap interval."""
    answers = answers if task.head == "tokens" else np.asarray(answers)
    score = interval(task, answers, labels, metric, samples=samples)
    return Score(score.value, score.low, score.high)


def proportion_ci(right: Sequence[bool], samples: int, seed: int = 0) -> Score | None:
    """Return the share that is true with its percentile bootstrap interval: resamples of yes and no are binomial."""
    count = len(right)
    if not count:
        return None
    value = sum(right) / count
    drawn = np.random.default_rng(seed).binomial(count, value, size=samples) / count
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Score(value, float(low), float(high))
