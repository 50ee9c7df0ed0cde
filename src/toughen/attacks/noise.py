"""Fixed noise at several strengths: scores on texts that nobody searched for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..tasks.spec import DataError, Task
from .disturbances import KINDS
from .target import Sum, Target
from .words import Row

STRENGTHS = (0.1, 0.3, 0.5, 1.0)
UNIT = "share of the places where it can be"
_LAST_TEXT = ("distractors",)  # where the stress test has them: behind the hypothesis
_WORD_BY_WORD = ("typos", "casing")  # what leaves every word its tag


def noisy(task: Task, row: Row, number: int, kind: str, strength: float, seed: int) -> Row:
    """A row under noise of a kind; which words are hit depends on seed, row and place alone."""
    found = dict(row)
    if task.head == "tokens":
        words: list[str] = [str(word) for word in row["tokens"]]
        key = f"{kind}/{seed}/{number}"
        found["tokens"] = [KINDS[kind](word, strength, f"{key}/{place}") or word for place, word in enumerate(words)]
        return found
    columns = [column for column in task.columns if isinstance(row[column], str)]
    for column in columns[-1:] if kind in _LAST_TEXT else columns:
        found[column] = KINDS[kind](row[column], strength, f"{kind}/{seed}/{number}/{column}")
    return found


def _outside(task: Task) -> int:
    """The tag of words that the model no longer sees: a garbled word has more pieces, and texts are cut at a length."""
    return task.labels.index("O") if "O" in task.labels else 0


@dataclass(frozen=True)
class NoiseAttack:
    """Noise that nobody searched for: the scores a model has on it, by kind and strength."""

    strengths: Sequence[float] = STRENGTHS
    kinds: Sequence[str] = tuple(KINDS)
    seed: int = 0
    name: str = "noise"
    kind: str = "noise"
    title: str = "Noise in the text"
    examples: bool = False

    def __post_init__(self) -> None:
        if not self.strengths or any(not 0 < strength <= 1 for strength in self.strengths):
            raise DataError(f"strengths={list(self.strengths)}: give shares above 0, up to 1.")

    @property
    def settings(self) -> dict[str, Any]:
        return {"strengths": sorted(self.strengths), "noise": list(self.kinds), "unit": UNIT, "seed": self.seed}

    def check(self, task: Task) -> None:
        if not self._kinds(task):
            raise DataError(f"noise {', '.join(self.kinds)} would move the tags of {task.name!r}; use typos or casing.")

    def _kinds(self, task: Task) -> list[str]:
        return [kind for kind in self.kinds if task.head != "tokens" or kind in _WORD_BY_WORD]

    def _conditions(self, task: Task) -> list[tuple[str, float]]:
        return [(kind, strength) for kind in self._kinds(task) for strength in sorted(self.strengths)]

    def facts(self, target: Target) -> tuple[()]:
        return ()

    def pieces(self, target: Target) -> int:
        return len(self._conditions(target.task))

    def work(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """The answers under one kind and strength after the other; texts that stay as they were are not asked again."""
        conditions = self._conditions(target.task)
        for number in numbers:
            kind, strength = conditions[number]
            rows = [noisy(target.task, row, i, kind, strength, self.seed) for i, row in enumerate(target.rows)]
            answers: list[Any] = list(target.answers())
            keys = target.victim.key
            hit = [i for i, (old, new) in enumerate(zip(target.rows, rows, strict=True)) if keys(old) != keys(new)]
            lost = 0
            if hit:
                told = target.said([rows[i] for i in hit])
                for i, answer in zip(hit, told, strict=True):
                    answers[i] = answer
                    if target.task.head == "tokens":
                        count = len(target.labels[i])
                        gone = [_outside(target.task)] * max(0, count - len(answer))
                        # A text cut at its left loses its first words.
                        left = target.victim.tokenizer.truncation_side == "left"
                        whole = [*gone, *answer] if left else [*answer, *gone]
                        answers[i] = whole[len(whole) - count :] if left else whole[:count]
                        lost += len(gone)
            about = {"noise": kind, "strength": strength, "changed": len(hit), "lost": lost}
            yield [{"index": number, **about, "answers": answers}]

    def sum_up(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> Sum:
        clean = {"x": 0.0, **target.score(target.answers(), target.task.primary_metric)}
        groups: list[dict[str, Any]] = []
        outcomes: dict[str, Any] = {}
        for kind in self._kinds(target.task):
            points = [clean]
            for row in rows:
                if row["noise"] == kind:
                    score = target.score(row["answers"], target.task.primary_metric)
                    points.append({"x": row["strength"], **score, "changed": row["changed"] / len(target.rows)})
                    outcomes[f"{kind} {row['strength']:g}"] = target.outcome(row["answers"], target.task.primary_metric)
            groups.append({"name": kind, "points": points})
        left = [kind for kind in self.kinds if kind not in self._kinds(target.task)]
        notes = [f"left out, because words would lose their tags: {', '.join(left)}"] if left else []
        never = [kind for kind in self._kinds(target.task)
                 if not any(row["changed"] for row in rows if row["noise"] == kind)]  # fmt: skip
        notes += [f"{kind} changed no text: there was no place for it" for kind in never]
        if lost := sum(row.get("lost", 0) for row in rows):
            notes.append(f"{lost} words were pushed out of texts cut at their length, and count as without a tag")
        return Sum({"metric": target.task.primary_metric, "groups": groups}, outcomes, notes)
