"""Sets made to be hard, or from elsewhere: AdvGLUE, HANS by heuristic, PAWS, ANLI, stress tests, any file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import nearest
from ...tasks import available, load, model_task
from ...tasks import task as task_named
from ...tasks.read.folder import check_apart, find_splits
from ...tasks.registry import plain
from ...tasks.spec import DataError, Task
from ...tasks.tokenising import IGNORED, is_labelled
from ..summary import Group, Point
from ..target import AttackScores, Outcome, Target, as_answers, outcome, score_with_ci
from ..victim import Victim

_FEW = 12  # a column with more values than this makes no groups
_TWO_CLASS_NLI = ("rte",)
_PLAIN = ("mnli-mm", "ax")  # parts of GLUE itself, and no harder than the rest


@dataclass(frozen=True)
class SetsAttack:
    """The model on other sets of its task: those named, or all that fit and lie in the folder of sets."""

    chosen: Sequence[str] = ()
    """Names of sets, or files in the columns of the run's own or of its task."""
    limit: int | None = None
    name: str = "sets"
    kind: str = "set"
    title: str = "Other and harder sets"
    examples: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"sets": list(self.chosen) or "all that fit", "limit": self.limit}

    def check(self, task: Task) -> None:
        if not self.chosen and not fitting(task):
            raise DataError(
                f"no set is known that tests a model of {task.name!r}; name files: sets= (--sets FILE,...)."
            )
        for name in self.chosen:
            if not Path(name).is_file() and plain(name) not in map(plain, available()):
                raise DataError(f"sets: {name!r} is neither a file nor a set. {nearest(name, available())}")

    def cache_key(self, target: Target) -> list[Any]:
        """How they are read, which files there are, and of what time: a set that came or changed is read again."""
        found: list[Any] = [dict(target.reading)] if target.reading else []
        for name in self._names(target.task):
            with suppress(DataError, OSError):
                own = [Path(name)] if Path(name).is_file() else _files(name, target)
                found += [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in own]
        return found

    def _names(self, task: Task) -> list[str]:
        return list(self.chosen) or fitting(task)

    def num_items(self, target: Target) -> int:
        return len(self._names(target.task))

    def run_items(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """The answers to every row of a set; of a set that is not there, why."""
        names = self._names(target.task)
        for number in numbers:
            try:
                task, rows = read(names[number], target, self.limit)
            except DataError as problem:
                if self.chosen:
                    raise
                yield [{"index": number, "set": names[number], "missing": " ".join(str(problem).split())}]
                continue
            victim = target.victim
            other = Victim(
                victim.model,
                victim.tokenizer,
                task,
                max_length=victim.text_tokenizer.max_length,
                batch_size=victim.rows,
            )
            answers, labels = _told(other, task, rows)
            kept = {name: [str(row.get(name)) for row in rows] for name in task.extra_columns if name in rows[0]}
            groups = {name: values for name, values in kept.items() if 1 < len(set(values)) <= _FEW}
            same = [name for name in names if Path(name).name == task.title]
            title = names[number] if len(same) > 1 else task.title  # files of one name in two folders
            about: dict[str, Any] = {"index": number, "set": names[number], "title": title, "groups": groups}
            yield [{**about, "answers": answers, "labels": labels, "fold": list(task.class_map)}]

    def summarize(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> AttackScores:
        groups: list[Group] = []
        outcomes: dict[str, Outcome] = {}
        count = 0
        for row in rows:
            if "missing" not in row:
                task = replace(target.task, class_map=tuple(row["fold"]))
                groups += list(_groups(task, target, row))
                outcomes[row["title"]] = outcome(task, row["answers"], row["labels"])
                count += len(row["labels"])
        gone = [f"{row['set']} ({row['missing']})" for row in rows if "missing" in row]
        notes = [f"not found: {'; '.join(gone)}"] if gone else []
        return AttackScores(outcomes, notes, groups=groups, rows=count)


def _groups(task: Task, target: Target, row: Mapping[str, Any]) -> Iterator[Group]:
    """The set as a whole, then by each of its columns that make groups (HANS: the heuristic)."""
    answers, labels = row["answers"], row["labels"]  # lists: rows of tags are of different lengths
    parts = {row["title"]: np.ones(len(labels), dtype=bool)}
    for column, values in row["groups"].items():
        column_values = np.asarray(values)
        parts |= {f"{row['title']}, {column} {value}": column_values == value for value in dict.fromkeys(values)}
    for name, here in parts.items():
        chosen = np.flatnonzero(here).tolist()
        some = [answers[i] for i in chosen], [labels[i] for i in chosen]
        score = score_with_ci(task, *some, target.metric, target.samples)
        yield Group(name, [Point(0.0, score, rows=int(here.sum()))])


def _told(victim: Victim, task: Task, rows: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """What the model says of every row, and its label in the same form."""
    if task.head == "tokens":
        tags = [[tag for tag in row["labels"] if tag != IGNORED] for row in victim.features(rows)]
        return Target(victim, rows, (), ()).said(rows), tags
    answers, labels = as_answers(task, victim.exact(rows)), [row["label"] for row in rows]
    if task.head == "multilabel":
        labels = [[int(number in numbers) for number in range(len(task.labels))] for numbers in labels]
    return answers, labels


def fitting(task: Task) -> list[str]:
    """Sets made to test a model of the task; a two-class entailment model takes the three-class sets too."""
    own = model_task(task).name
    wanted = {own, "mnli"} if own in _TWO_CLASS_NLI else {own}
    sets = [name for name in available() if task_named(name).tests in wanted and name not in _PLAIN]
    return [name for name in sets if own == "mnli" or not name.startswith("advglue-mnli")]


def _files(name: str, target: Target) -> list[Path]:
    return [] if target.dir is None else list(find_splits(target.dir, task_named(name))[0].values())


def read(name: str, target: Target, limit: int | None) -> tuple[Task, list[dict[str, Any]]]:
    """A set's task and rows, with labels that the model under attack can give."""
    if Path(name).is_file():
        own = model_task(target.task)
        data = load(replace(own, tests=None), validation_file=name, limit=limit, **target.reading)
        return replace(data.task, title=Path(name).name, name=own.name), _rows(data)
    task = task_named(name)
    if target.dir is None:
        raise DataError(f"{name}: no folder of sets; give dir= (--dir).")
    own = model_task(target.task)
    for known in (own, target.task):
        check_apart(target.dir, task, known)
    rows = _rows(load(task, dir=target.dir, limit=limit))
    if own.name in _TWO_CLASS_NLI and task.tests == "mnli":
        # Neutral and contradiction are both "not entailment" to a two-class model.
        rows = [{**row, "label": min(int(row["label"]), 1)} for row in rows]
        task = replace(task, labels=own.labels, tests=own.name, class_map=())
    return task, rows


def _rows(data: Any) -> list[dict[str, Any]]:
    split = data.validation if data.validation is not None else data.test
    if split is None:
        raise DataError(f"{data.task.name} has no rows to test on; it has {', '.join(data.splits)}.")
    if not is_labelled(split, data.task):
        raise DataError(f"{data.task.name}: the labels of its rows are withheld: nothing can be scored.")
    return [dict(row) for row in split]
