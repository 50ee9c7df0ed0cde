"""Attacks on the text itself: each example's search, its record, and the summary in the field's words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..tasks.spec import DataError, Task
from .attacked_text import Budget, Keep, Passage
from .target import Outcome, Sum, Target, share
from .text_search import AT_ONCE, Attempt, Search, Slopes, run_all
from .victim import MARGIN, Judge, Victim, needs_classes

Begin: TypeAlias = Callable[[Attempt], Search]
Prepare: TypeAlias = Callable[[Target], tuple[Begin, Slopes | None]]
"""Made ready for a model: how a search begins, and where gradients come from."""


@dataclass(frozen=True)
class TextAttack:
    """A search over texts. Examples that the model already gets wrong are skipped, as in TextAttack's books."""

    name: str
    title: str
    budget: Budget
    keep: Sequence[str]
    prepare: Prepare
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    columns: Sequence[str] = ()
    at_once: int = AT_ONCE
    examples: bool = True
    of_choices: bool = True
    """Whether it can be made on multiple choice."""

    @property
    def kind(self) -> str:
        return self.name

    @property
    def settings(self) -> dict[str, Any]:
        budget = {"queries": self.budget.queries, "words": self.budget.words}
        return {**budget, "keep": list(self.keep), "columns": list(self.columns) or "all", **self.own}

    def check(self, task: Task) -> None:
        needs_classes(task, self.name)
        if task.head == "choices" and not self.of_choices:
            raise DataError(
                f"attack {self.name!r} reads one text or a pair; for multiple choice use characters or synonyms."
            )
        for column in self.columns:
            if column not in task.columns:
                raise DataError(f"{task.name!r} has no text column {column!r}; it has {', '.join(task.columns)}.")
            if task.head == "choices" and column == "choices":
                raise DataError("column 'choices' is a list and no text; attack context or question.")

    def facts(self, target: Target) -> tuple[()]:
        return ()

    def pieces(self, target: Target) -> int:
        return len(target.rows)

    def work(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """Records of examples as their searches end."""
        judge, keep = Judge(target.task), Keep.of(self.keep, target.task)
        skipped = [n for n in numbers if judge.answer(target.logits[n]) != self._label(target, n)]
        yield [self._record(target, judge, self._attempt(target, judge, number, keep)) for number in skipped]
        begin, slopes = self.prepare(target)

        def searches() -> Iterator[tuple[Attempt, Search]]:
            for number in numbers:
                if number not in left_out:
                    attempt = self._attempt(target, judge, number, keep)
                    yield attempt, begin(attempt)

        left_out = set(skipped)
        for ended in run_all(target.victim, searches(), slopes, self.at_once):
            if ended:
                yield self._records(target, judge, ended)

    def _label(self, target: Target, number: int) -> int:
        return int(target.labels[number])

    def _attempt(self, target: Target, judge: Judge, number: int, keep: Keep) -> Attempt:
        row = {column: target.rows[number][column] for column in target.task.columns}
        columns = self.columns or [column for column in target.task.columns if isinstance(row[column], str)]
        label = self._label(target, number)
        chance = judge.chance(target.logits[number], label)
        return Attempt(number, Passage.of(row, columns, keep), label, self.budget, chance)

    def _records(self, target: Target, judge: Judge, ended: Sequence[Attempt]) -> list[dict[str, Any]]:
        """Judged once more in float32: what is written down is what the text gives when it is fed again."""
        changed = [attempt for attempt in ended if attempt.changes]
        final = _exact(target.victim, changed)
        for attempt in changed:
            lead = judge.margin(final[attempt.index], attempt.label)
            attempt.fooled = attempt.fooled and lead > MARGIN
            if not attempt.fooled and lead > 0:  # too close to say, or the search did not see it: neither counts
                attempt.changes.clear()
        return [self._record(target, judge, attempt, final.get(attempt.index)) for attempt in ended]

    def _record(self, target: Target, judge: Judge, attempt: Attempt, after: Any = None) -> dict[str, Any]:
        before = target.logits[attempt.index]
        after = before if after is None or not attempt.changes else after
        answer = judge.answer(before)
        wrong = answer != attempt.label
        words = max(1, attempt.passage.words)
        return {
            "index": attempt.index,
            "status": "skipped" if wrong else "succeeded" if attempt.fooled else "failed",
            "label": judge.name(attempt.label),
            "prediction_before": judge.name(answer),
            "prediction_after": judge.name(judge.answer(after)),
            "probability_before": judge.chance(before, attempt.label),
            "probability_after": judge.chance(after, attempt.label),
            "queries": attempt.queries,
            "words_changed": len(attempt.changes) / words,
            "original": dict(attempt.passage.row),
            "perturbed": dict(attempt.passage.changed(attempt.changes)),
            "changed": [list(place) for place in sorted(attempt.changes)],
        }

    def sum_up(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> Sum:
        """After-attack accuracy, success rate, mean queries of the attacked, mean share of words of the broken."""
        right = [row["status"] == "failed" for row in rows]
        tried = [row for row in rows if row["status"] != "skipped"]
        broken = [row for row in tried if row["status"] == "succeeded"]
        attacked = {
            "accuracy": share(right, target.samples),
            "success_rate": share([row["status"] == "succeeded" for row in tried], target.samples),
            "skipped": len(rows) - len(tried),
            "failed": len(tried) - len(broken),
            "succeeded": len(broken),
            "queries": sum(row["queries"] for row in tried) / max(1, len(tried)),
            "words_changed": sum(row["words_changed"] for row in broken) / max(1, len(broken)),
        }
        notes: list[str] = []
        spent = sum(row["status"] == "failed" and row["queries"] >= self.budget.queries for row in rows)
        if spent:
            notes.append(
                f"{spent} of {len(tried)} searches ended because their {self.budget.queries} queries were spent"
            )
        return Sum({"attacked": attacked}, {"after": Outcome(right)}, notes)


def _exact(victim: Victim, attempts: Sequence[Attempt]) -> dict[int, Any]:
    if not attempts:
        return {}
    logits = victim.exact([attempt.passage.changed(attempt.changes) for attempt in attempts])
    return dict(zip([attempt.index for attempt in attempts], logits, strict=True))
