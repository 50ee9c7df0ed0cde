"""Sets made to be hard, or from elsewhere: AdvGLUE, HANS by heuristic, PAWS, ANLI, stress tests, any file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import nearest
from ...tasks.registry import available, plain
from ...tasks.registry import task as task_named
from ...tasks.spec import DataError, Task
from ..base import Attack, AttackScores, Outcome, Record, option, register_attack
from ..runner import file_stamp
from ..summary import Group, Point

if TYPE_CHECKING:
    from ..target import Target
    from ..victim import Victim

_MAX_GROUPS = 12  # a column with more values makes no groups
_TWO_CLASS_NLI = ("rte",)
_PLAIN = ("mnli-mm", "ax")  # parts of GLUE itself, and no harder than the rest


@register_attack("sets")
@dataclass(frozen=True)
class SetsAttack(Attack):
    """AdvGLUE, HANS by heuristic, PAWS, ANLI, the MNLI stress tests, or any file."""

    title = "Other and harder sets"
    white_box = True

    sets: Sequence[str] = ()
    """Sets, or files in the columns of the run's own or of its task; none named: all in the folder that fit."""
    limit: int | None = option(None, flag="")
    """Rows of each set."""

    @property
    def kind(self) -> str:
        return "set"

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"sets": list(self.sets) or "all that fit"}

    def check(self, task: Task) -> None:
        if not self.sets and not fitting(task):
            raise DataError(
                f"no set is known that tests a model of {task.name!r}; name files: sets= (--sets FILE,...)."
            )
        for name in self.sets:
            if not Path(name).is_file() and plain(name) not in map(plain, available()):
                raise DataError(f"sets: {name!r} is neither a file nor a set. {nearest(name, available())}")

    def cache_key(self, target: "Target") -> list[Any]:
        """Return how files are read, and which files of what time there are: a new or changed set is read again."""
        key: list[Any] = [dict(target.reading)] if target.reading else []
        for name in self._names(target.task):
            with suppress(DataError, OSError):
                key += [(str(file), *file_stamp(file)) for file in _files(name, target)]
        return key

    def _names(self, task: Task) -> list[str]:
        return list(self.sets) or fitting(task)

    def num_items(self, target: "Target") -> int:
        return len(self._names(target.task))

    def run_items(self, target: "Target", numbers: Sequence[int]) -> Iterator[list[Record]]:
        """Yield the answers to every row of a set; of a set that is missing, the reason."""
        from ..victim import Victim

        names = self._names(target.task)
        for number in numbers:
            try:
                task, rows = read(names[number], target, self.limit)
            except DataError as problem:
                if self.sets:
                    raise
                yield [{"index": number, "set": names[number], "missing": " ".join(str(problem).split())}]
                continue
            own = target.white_box
            length = own.text_tokenizer.max_length
            victim = Victim(
                own.model, own.tokenizer, task, max_length=length, pad_to_max_length=own.pads, batch_size=own.rows
            )
            answers, labels = _answers_and_labels(victim, rows)
            columns = {name: [str(row.get(name)) for row in rows] for name in task.extra_columns if name in rows[0]}
            groups = {name: values for name, values in columns.items() if 1 < len(set(values)) <= _MAX_GROUPS}
            same = [name for name in names if Path(name).name == task.title]
            title = names[number] if len(same) > 1 else task.title  # files of one name in two folders
            about: Record = {"index": number, "set": names[number], "title": title, "groups": groups}
            yield [{**about, "answers": answers, "labels": labels, "fold": list(task.class_map)}]

    def summarize(self, target: "Target", records: Sequence[Record]) -> AttackScores:
        from ..target import outcome

        groups: list[Group] = []
        outcomes: dict[str, Outcome] = {}
        read = [row for row in records if "missing" not in row]
        for row in read:
            task = replace(target.task, class_map=tuple(row["fold"]))
            groups += _groups(task, target, row)
            outcomes[row["title"]] = outcome(task, row["answers"], row["labels"])
        missing = [f"{row['set']} ({row['missing']})" for row in records if "missing" in row]
        notes = [f"not found: {'; '.join(missing)}"] if missing else []
        return AttackScores(outcomes, notes, groups=groups, rows=sum(len(row["labels"]) for row in read))


def _groups(task: Task, target: "Target", row: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the score of all rows, then those of the groups that columns make (HANS: the heuristic)."""
    from ..target import score_with_ci

    answers, labels = row["answers"], row["labels"]  # lists: rows of tags are of different lengths
    parts = {row["title"]: list(range(len(labels)))}
    for column, values in row["groups"].items():
        for value in dict.fromkeys(values):
            parts[f"{row['title']}, {column} {value}"] = [i for i, each in enumerate(values) if each == value]
    for name, rows in parts.items():
        some = [answers[i] for i in rows], [labels[i] for i in rows]
        score = score_with_ci(task, *some, target.metric, target.samples)
        yield Group(name, [Point(0.0, score, rows=len(rows))])


def _answers_and_labels(victim: "Victim", rows: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Return the answers to rows, and the labels in the same form."""
    from ...tasks.tokenising import IGNORED
    from ..target import predict

    task = victim.task
    if task.head == "tokens":
        labels = [[tag for tag in row["labels"] if tag != IGNORED] for row in victim.features(rows)]
    elif task.head == "multilabel":
        labels = [[int(number in row["label"]) for number in range(len(task.labels))] for row in rows]
    else:
        labels = [row["label"] for row in rows]
    return predict(victim, rows), labels


def fitting(task: Task) -> list[str]:
    """Return the sets that test a model of the task; a two-class entailment model takes the three-class sets too."""
    from ...tasks import model_task

    own = model_task(task).name
    wanted = {own, "mnli"} if own in _TWO_CLASS_NLI else {own}
    sets = [name for name in available() if task_named(name).tests in wanted and name not in _PLAIN]
    return [name for name in sets if own == "mnli" or not name.startswith("advglue-mnli")]


def _files(name: str, target: "Target") -> list[Path]:
    from ...tasks.read.folder import find_splits

    if Path(name).is_file():
        return [Path(name)]
    return [] if target.dir is None else list(find_splits(target.dir, task_named(name))[0].values())


def read(name: str, target: "Target", limit: int | None) -> tuple[Task, list[dict[str, Any]]]:
    """Return a set's task and rows, with labels that the model under attack can give."""
    from ...tasks import load, model_task
    from ...tasks.read.folder import check_apart

    own = model_task(target.task)
    if Path(name).is_file():
        data = load(replace(own, tests=None), validation_file=name, limit=limit, **target.reading)
        return replace(data.task, title=Path(name).name, name=own.name), _rows(data)
    task = task_named(name)
    if target.dir is None:
        raise DataError(f"{name}: no folder of sets; give dir= (--dir).")
    for known in (own, target.task):
        check_apart(target.dir, task, known)
    rows = _rows(load(task, dir=target.dir, limit=limit))
    if own.name in _TWO_CLASS_NLI and task.tests == "mnli":
        # Neutral and contradiction are both "not entailment" to a two-class model.
        rows = [{**row, "label": min(int(row["label"]), 1)} for row in rows]
        task = replace(task, labels=own.labels, tests=own.name, class_map=())
    return task, rows


def _rows(data: Any) -> list[dict[str, Any]]:
    from ...tasks.tokenising import is_labelled

    split = data.validation if data.validation is not None else data.test
    if split is None:
        raise DataError(f"{data.task.name} has no rows to test on; it has {', '.join(data.splits)}.")
    if not is_labelled(split, data.task):
        raise DataError(f"{data.task.name}: the labels of its rows are withheld: nothing can be scored.")
    return [dict(row) for row in split]
