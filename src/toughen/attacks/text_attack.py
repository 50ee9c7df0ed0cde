"""Attacks on the text itself: each example's search, its record, and the summary in the field's words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..tasks.spec import DataError, Task
from .attacked_text import AttackedText, Budget, WordConstraint
from .summary import TextScores
from .target import AttackScores, Outcome, Target, proportion_ci
from .text_search import PARALLEL, GradientFn, Search, SearchState, run_all
from .victim import MARGIN, LabelScorer, Victim, needs_classes

StartSearch: TypeAlias = Callable[[SearchState], Search]
Prepare: TypeAlias = Callable[[Target], tuple[StartSearch, GradientFn | None]]
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
    parallel: int = PARALLEL
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

    def cache_key(self, target: Target) -> tuple[()]:
        return ()

    def num_items(self, target: Target) -> int:
        return len(target.rows)

    def run_items(self, target: Target, numbers: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        """Records of examples as their searches end."""
        scorer, keep = LabelScorer(target.task), WordConstraint.of(self.keep, target.task)
        skipped = [n for n in numbers if scorer.predicted_class(target.logits[n]) != self._label(target, n)]
        yield [self._record(target, scorer, self._attempt(target, scorer, number, keep)) for number in skipped]
        start_search, slopes = self.prepare(target)

        def searches() -> Iterator[tuple[SearchState, Search]]:
            for number in numbers:
                if number not in left_out:
                    state = self._attempt(target, scorer, number, keep)
                    yield state, start_search(state)

        left_out = set(skipped)
        for ended in run_all(target.victim, searches(), slopes, self.parallel):
            if ended:
                yield self._records(target, scorer, ended)

    def _label(self, target: Target, number: int) -> int:
        return int(target.labels[number])

    def _attempt(self, target: Target, scorer: LabelScorer, number: int, keep: WordConstraint) -> SearchState:
        row = {column: target.rows[number][column] for column in target.task.columns}
        columns = self.columns or [column for column in target.task.columns if isinstance(row[column], str)]
        label = self._label(target, number)
        probability = scorer.probability(target.logits[number], label)
        return SearchState(number, AttackedText.of(row, columns, keep), label, self.budget, probability)

    def _records(self, target: Target, scorer: LabelScorer, ended: Sequence[SearchState]) -> list[dict[str, Any]]:
        """Judged once more in float32: what is written down is what the text gives when it is fed again."""
        changed = [state for state in ended if state.changes]
        final = _exact(target.victim, changed)
        for state in changed:
            lead = scorer.margin(final[state.index], state.label)
            state.success = state.success and lead > MARGIN
            if not state.success and lead > 0:  # too close to say, or the search did not see it: neither counts
                state.changes.clear()
        return [self._record(target, scorer, state, final.get(state.index)) for state in ended]

    def _record(self, target: Target, scorer: LabelScorer, state: SearchState, after: Any = None) -> dict[str, Any]:
        before = target.logits[state.index]
        after = before if after is None or not state.changes else after
        answer = scorer.predicted_class(before)
        wrong = answer != state.label
        words = max(1, state.text.words)
        return {
            "index": state.index,
            "status": "skipped" if wrong else "succeeded" if state.success else "failed",
            "label": scorer.label_name(state.label),
            "prediction_before": scorer.label_name(answer),
            "prediction_after": scorer.label_name(scorer.predicted_class(after)),
            "probability_before": scorer.probability(before, state.label),
            "probability_after": scorer.probability(after, state.label),
            "queries": state.queries,
            "words_changed": len(state.changes) / words,
            "original": dict(state.text.row),
            "perturbed": dict(state.text.changed(state.changes)),
            "changed": [list(place) for place in sorted(state.changes)],
        }

    def summarize(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> AttackScores:
        """After-attack accuracy, success rate, mean queries of the attacked, mean share of words of the broken."""
        right = [row["status"] == "failed" for row in rows]
        tried = [row for row in rows if row["status"] != "skipped"]
        broken = [row for row in tried if row["status"] == "succeeded"]
        attacked = TextScores(
            accuracy=proportion_ci(right, target.samples),
            success_rate=proportion_ci([row["status"] == "succeeded" for row in tried], target.samples),
            skipped=len(rows) - len(tried),
            failed=len(tried) - len(broken),
            succeeded=len(broken),
            queries=sum(row["queries"] for row in tried) / max(1, len(tried)),
            words_changed=sum(row["words_changed"] for row in broken) / max(1, len(broken)),
        )
        notes: list[str] = []
        spent = sum(row["status"] == "failed" and row["queries"] >= self.budget.queries for row in rows)
        if spent:
            notes.append(
                f"{spent} of {len(tried)} searches ended because their {self.budget.queries} queries were spent"
            )
        return AttackScores({"after": Outcome(right)}, notes, attacked=attacked)


def _exact(victim: Victim, attempts: Sequence[SearchState]) -> dict[int, Any]:
    if not attempts:
        return {}
    logits = victim.exact([state.text.changed(state.changes) for state in attempts])
    return dict(zip([state.index for state in attempts], logits, strict=True))
