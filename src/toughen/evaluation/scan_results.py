"""What a scan finds: scores and paired losses, slices of the rows, and the worst examples of each check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..attacks.base import ChangedRow, Outcome
from ..attacks.paired import Difference, compare, outcome_score
from ..attacks.summary import Score
from ..tasks.spec import Task
from .checks import Check
from .measures import Evaluation, length_groups, text_slices

if TYPE_CHECKING:
    from ..attacks.target import Target

EXAMPLES = 10  # of each check
SMALLEST_SLICE = 10  # rows; the loss of fewer says nothing


@dataclass(frozen=True)
class BrokenRow:
    """A row that a check broke: its texts before and after, and the model's answers."""

    index: int
    label: str
    before: str
    after: str
    original: Mapping[str, str]
    changed: Mapping[str, str]
    queries: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """What is left of the score under one check."""

    check: Check
    score: Score
    loss: Difference
    """Clean minus this, on the same rows."""
    slices: Mapping[tuple[str, str], float]
    """Kind and name of a slice -> its score."""
    examples: Sequence[BrokenRow]
    broken: int
    """Rows whose answers it made wrong, or worse where no answer is right or wrong."""
    seconds: float
    notes: Sequence[str] = ()

    @property
    def points(self) -> str:
        """The loss in points, and half of its 95 % interval."""
        return f"{100 * self.loss.difference:.1f} ± {50 * (self.loss.high - self.loss.low):.1f}"


@dataclass(frozen=True)
class Slice:
    """Some of the rows: their clean score, and that under each check by its name."""

    kind: str
    name: str
    rows: int
    clean: float
    scores: Mapping[str, float]

    @property
    def worst(self) -> tuple[str, float]:
        """The check that costs these rows most, and how much."""
        return max(((name, self.clean - score) for name, score in self.scores.items()), key=lambda each: each[1])


@dataclass(frozen=True)
class Scan:
    """A model on its rows as they are, and under every check."""

    model: str
    task: Task
    metric: str
    rows: int
    clean: Score
    evaluation: Evaluation
    """The clean score with all metrics, and the calibration."""
    checks: Sequence[CheckResult]
    left_out: Mapping[str, str]
    """Check -> why it was not run."""
    slices: Sequence[Slice]
    advice: Sequence[str]
    page: Path
    seconds: float
    notes: Sequence[str] = ()

    @property
    def decision(self) -> str:
        """What the model loses under the first check, and where it is weakest, in one sentence."""
        if not self.checks:
            return f"{self.model}: no check fits, so there is nothing to say."
        first = self.checks[0]
        parts = [f"{self.model} loses {first.points} points of {self.metric} under {first.check.title}"]
        for searched, words in ((False, "weakest"), (True, "weakest where changes are searched for")):
            some = [each for each in self.checks if each.check.searched == searched]
            worst = max(some, key=lambda each: each.loss.difference, default=first)
            if worst is not first and worst.loss.difference > 0:
                parts.append(f"{words}: {worst.check.name} ({worst.points})")
        return "; ".join(parts) + "."

    @property
    def weakest_slice(self) -> Slice | None:
        """The slice that loses most under any check, of those that are large enough; None if none loses."""
        large = [each for each in self.slices if each.rows >= SMALLEST_SLICE and each.scores and each.worst[1] > 0]
        return max(large, key=lambda each: each.worst[1], default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return what scan.json holds."""
        checks = [
            {"check": each.check.name, "title": each.check.title, "attack": each.check.attack, **each.score.to_dict()}
            | {"loss": each.loss.difference, "loss_low": each.loss.low, "loss_high": each.loss.high, "p": each.loss.p}
            | {"broken": each.broken, "seconds": each.seconds, "examples": [vars(row) for row in each.examples]}
            for each in self.checks
        ]
        fields = {"toughen": __version__, "model": self.model, "task": self.task.name, "decision": self.decision}
        fields |= {"rows": self.rows, "metric": self.metric, "clean": self.clean.to_dict(), "checks": checks}
        fields |= {"left_out": dict(self.left_out), "slices": [vars(each) for each in self.slices]}
        fields |= {"evaluation": self.evaluation.to_dict(), "advice": list(self.advice), "seconds": self.seconds}
        return fields | {"notes": list(self.notes)}


def check_result(
    check: Check, target: "Target", changed: Sequence[ChangedRow], seconds: float, notes: Sequence[str]
) -> CheckResult:
    """Measure the answers to changed rows against those to the unchanged ones."""
    answers = target.answers()
    for each in changed:
        answers[each.index] = each.answer
    before, after = target.outcome(target.answers(), target.metric), target.outcome(answers, target.metric)
    harms = {each.index: _harm(target, each, before, after) for each in changed}
    broken = sorted((each for each in changed if harms[each.index] > 0), key=lambda each: -harms[each.index])
    return CheckResult(
        check=check,
        score=target.score(answers),
        loss=compare(target.task, target.metric, before, after, attack=check.attack, point=check.name),
        slices={key: _score_of(target, after, rows) for key, rows in _groups(target).items()},
        examples=[_broken_row(target, each) for each in broken[:EXAMPLES]],
        broken=len(broken),
        seconds=seconds,
        notes=notes,
    )


def slices(target: "Target", results: Sequence[CheckResult]) -> list[Slice]:
    """Return classes, thirds by length and other groups of the rows, with their scores."""
    clean = target.outcome(target.answers(), target.metric)
    return [
        Slice(*key, len(rows), _score_of(target, clean, rows), {each.check.name: each.slices[key] for each in results})
        for key, rows in _groups(target).items()
    ]


def _groups(target: "Target") -> dict[tuple[str, str], list[int]]:
    """Return kind and name of every slice with the numbers of its rows."""
    task = target.task
    words = [sum(len(text.split()) for text in _texts(target, row).values()) for row in target.rows]
    kinds: dict[str, list[str]] = {}
    if task.head == "classes":
        kinds["label"] = [target.victim.scorer.label_name(int(label)) for label in target.labels]
    kinds |= {"length in words": length_groups(words), **text_slices(task, target.rows)}
    groups: dict[tuple[str, str], list[int]] = {}
    for kind, names in kinds.items():
        for name in sorted(set(names), key=_in_order) if len(set(names)) > 1 else ():
            groups[kind, name] = [number for number, each in enumerate(names) if each == name]
    return groups


def _in_order(name: str) -> tuple[int, str]:
    """Sort lengths such as "7-12" as numbers, other names as text."""
    first = name.partition("-")[0]
    return int(first) if first.isdecimal() else 0, name


def _score_of(target: "Target", outcome: Outcome, rows: Sequence[int]) -> float:
    labels = None if outcome.labels is None else [outcome.labels[row] for row in rows]
    return outcome_score(target.task, target.metric, Outcome([outcome.rows[row] for row in rows], labels))


def _harm(target: "Target", changed: ChangedRow, before: Outcome, after: Outcome) -> float:
    """Return how bad a change of a row is, 0 if it did nothing.

    Of an answer that became wrong: the probability of the label before. Else: how much the error grew.
    """
    number, task = changed.index, target.task
    if task.is_single_label:
        broken = before.rows[number] and not after.rows[number]
        return target.victim.scorer.probability(target.logits[number], int(target.labels[number])) if broken else 0.0
    label = np.asarray(target.labels[number], dtype=float)
    was, now = (np.abs(np.asarray(rows.rows[number], dtype=float) - label) for rows in (before, after))
    if task.head != "regression":
        was, now = (was > 0).astype(float), (now > 0).astype(float)
    return float(now.sum() - was.sum())


def _broken_row(target: "Target", changed: ChangedRow) -> BrokenRow:
    number, label = changed.index, target.labels[changed.index]
    before, after = (_answer(target, one, label) for one in (target.answers()[number], changed.answer))
    texts = _texts(target, target.rows[number]), _texts(target, changed.row)
    return BrokenRow(number, _answer(target, label, label), before, after, *texts, changed.queries)


def _texts(target: "Target", row: Mapping[str, Any]) -> dict[str, str]:
    values = {column: row[column] for column in target.task.columns}
    return {name: " ".join(map(str, text)) if isinstance(text, list) else str(text) for name, text in values.items()}


def _answer(target: "Target", answer: Any, label: Any) -> str:
    """Return an answer in words."""
    if target.task.is_single_label:
        return target.victim.scorer.label_name(int(answer))
    if target.task.head == "regression":
        return f"{float(np.asarray(answer).reshape(-1)[0]):.2f}"
    if target.task.head == "multilabel":
        return ", ".join(name for name, is_on in zip(target.task.labels, answer, strict=True) if is_on) or "none"
    wrong = int(np.sum(np.asarray(answer) != np.asarray(label)))
    return f"{wrong} of {len(label)} tags wrong" if wrong else "all tags right"
