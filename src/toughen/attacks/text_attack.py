"""The base of attacks on texts: each example's search, its record, and the summary in the field's words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..tasks.spec import DataError, Task
from ..text.words import WORD_CONSTRAINTS, match_case, word_constraint
from .attacked_text import AttackedText, Budget, WordPosition
from .base import Attack, AttackScores, ChangedRow, Outcome, Record, option
from .runner import digest
from .summary import TextScores
from .text_search import Search, SearchState, StartSearch, greedy, run_all

if TYPE_CHECKING:
    from .target import Target

_OTHER_HEADS = {"regression": "a regression", "multilabel": "several labels a text", "tokens": "a tag for every word"}


@dataclass(frozen=True)
class TextAttack(Attack):
    """Base of searches over texts. A subclass has `variants`, or a search of its own in `start_search`.

    Examples that the model already gets wrong are skipped, as in TextAttack's papers.
    """

    examples = True
    supports_choices: ClassVar[bool] = True
    """Whether it attacks multiple choice."""

    queries: int = 200
    """Texts the attack may try on an example."""
    words: float = 0.3
    """Share of the words of an example that it may change."""
    keep: Sequence[str] = option(WORD_CONSTRAINTS, choices=WORD_CONSTRAINTS)
    """Words that stay as they are: labels, stopwords, numbers, or none."""
    columns: Sequence[str] = option((), flag="attack_columns")
    """Text columns to change; none named: all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Budget(self.queries, self.words)  # refuses numbers that are no budget

    @property
    def budget(self) -> Budget:
        return Budget(self.queries, self.words)

    def start_search(self, target: "Target") -> StartSearch:
        """Prepare the attack for a model, and return the function that starts the search on an example."""
        return lambda state: greedy(state, self.variants)

    def variants(self, state: SearchState, position: WordPosition) -> Sequence[str]:
        """Return the words that may replace the word at a position, best guesses first."""
        raise NotImplementedError

    def notes(self, target: "Target") -> Sequence[str]:
        """Return what a reader of the scores must know of how they came about."""
        return ()

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"columns": list(self.columns) or "all"}

    def check(self, task: Task) -> None:
        if not task.is_single_label:
            raise DataError(
                f"attack {self.name!r} looks for texts whose class changes; {task.name!r} is "
                f"{_OTHER_HEADS[task.head]}. Use embedding or noise there."
            )
        if task.head == "choices" and not self.supports_choices:
            raise DataError(
                f"attack {self.name!r} reads one text or a pair; for multiple choice use characters or synonyms."
            )
        for column in self.columns:
            if column not in task.columns:
                raise DataError(f"{task.name!r} has no text column {column!r}; it has {', '.join(task.columns)}.")
            if task.head == "choices" and column == "choices":
                raise DataError("column 'choices' is a list, not a text; attack context or question.")

    def cache_key(self, target: "Target") -> Sequence[Any]:
        return ["margins"]  # results of versions that went by probabilities are others

    def run_items(self, target: "Target", numbers: Sequence[int]) -> Iterator[list[Record]]:
        """Yield the records of examples as their searches end."""
        keep, scorer = word_constraint(self.keep, target.task.labels), target.victim.scorer
        right = {n: scorer.predicted_class(target.logits[n]) == int(target.labels[n]) for n in numbers}
        yield [self._record(target, self._state(target, n, keep)) for n in numbers if not right[n]]
        start_search = self.start_search(target)

        def searches() -> Iterator[tuple[SearchState, Search]]:
            for state in (self._state(target, n, keep) for n in numbers if right[n]):
                yield state, start_search(state)

        for ended in run_all(target.victim, searches()):
            if ended:
                yield self._records(target, ended)

    def _state(self, target: "Target", number: int, keep: Callable[[str], bool]) -> SearchState:
        row = {column: target.rows[number][column] for column in target.task.columns}
        columns = self.columns or [column for column in target.task.columns if isinstance(row[column], str)]
        label = int(target.labels[number])
        text, margin = AttackedText.of(row, columns, keep), float(target.margins[number])
        return SearchState(number, text, label, self.budget, margin, target.tie)

    def _records(self, target: "Target", ended: Sequence[SearchState]) -> list[Record]:
        """Judge the texts in float32, once more where the search did not: a record holds what its text gives."""
        changed = [state for state in ended if state.changes]
        judge = target.victim.exact if target.victim.half else target.victim.scores
        logits = judge([state.text.changed(state.changes) for state in changed]) if changed else ()
        final = {state.index: one for state, one in zip(changed, logits, strict=True)}
        for state in changed:
            margin = target.victim.scorer.margin(final[state.index], state.label)
            state.success = state.success and margin > target.tie
            if not state.success and margin > 0:  # too close to say, or the search did not see it: neither counts
                state.changes.clear()
        return [self._record(target, state, final.get(state.index)) for state in ended]

    def _record(self, target: "Target", state: SearchState, after: object = None) -> Record:
        scorer, before = target.victim.scorer, target.logits[state.index]
        after = before if after is None or not state.changes else after
        answer = scorer.predicted_class(before)
        return {
            "index": state.index,
            "status": "skipped" if answer != state.label else "succeeded" if state.success else "failed",
            "label": scorer.label_name(state.label),
            "prediction_before": scorer.label_name(answer),
            "prediction_after": scorer.label_name(scorer.predicted_class(after)),
            "margin_before": scorer.margin(before, state.label),
            "margin_after": scorer.margin(after, state.label),
            "probability_before": scorer.probability(before, state.label),
            "probability_after": scorer.probability(after, state.label),
            "queries": state.queries,
            "words_changed": len(state.changes) / max(1, state.text.words),
            "original": dict(state.text.row),
            "perturbed": dict(state.text.changed(state.changes)),
            "changed": [list(position) for position in sorted(state.changes)],
        }

    def summarize(self, target: "Target", records: Sequence[Record]) -> AttackScores:
        """Return after-attack accuracy, success rate, mean queries of the attacked, share of words of the broken."""
        from .target import proportion_ci

        right = [row["status"] == "failed" for row in records]
        attacked = [row for row in records if row["status"] != "skipped"]
        broken = [row for row in attacked if row["status"] == "succeeded"]
        scores = TextScores(
            accuracy=proportion_ci(right, target.samples),
            success_rate=proportion_ci([row["status"] == "succeeded" for row in attacked], target.samples),
            skipped=len(records) - len(attacked),
            failed=len(attacked) - len(broken),
            succeeded=len(broken),
            queries=sum(row["queries"] for row in attacked) / max(1, len(attacked)),
            words_changed=sum(row["words_changed"] for row in broken) / max(1, len(broken)),
        )
        spent = sum(row["status"] == "failed" and row["queries"] >= self.queries for row in records)
        note = f"{spent} of {len(attacked)} searches ended because their {self.queries} queries were spent"
        return AttackScores({"after": Outcome(right)}, [*[note] * bool(spent), *self.notes(target)], attacked=scores)

    def changed_rows(self, target: "Target", records: Sequence[Record]) -> list[ChangedRow]:
        task, name = target.task, target.victim.scorer.label_name
        numbers = {name(number): number for number in range(max(len(task.labels), 1 + max(map(int, target.labels))))}
        return [
            ChangedRow(row["index"], row["perturbed"], numbers[row["prediction_after"]], row["queries"])
            for row in records
        ]


@dataclass(frozen=True)
class SubstitutionAttack(TextAttack):
    """Base of text attacks that replace words by other words."""

    candidates: int = 10
    """Words tried at a position; of flips those tried after a gradient."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates < 1:
            raise DataError(f"candidates={self.candidates}: give at least 1.")


@dataclass(frozen=True)
class TableAttack(SubstitutionAttack):
    """Base of attacks that replace words by those that a file has for them."""

    file_option: ClassVar[str]
    """The option that names the file."""
    table: Mapping[str, Sequence[str]] = field(init=False, repr=False, compare=False)
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in zip(("table", "source"), self.load(), strict=True):
            object.__setattr__(self, name, value)

    def load(self) -> tuple[Mapping[str, Sequence[str]], str]:
        """Return the words for each word, and the name of their source."""
        raise NotImplementedError

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings | {"source": self.source, "digest": digest(self.table)}
        del settings[self.file_option]  # the same words in another place are the same
        return settings

    def variants(self, state: SearchState, position: WordPosition) -> Sequence[str]:
        """Return the first words for a word, in its case."""
        word = state.text.word(position)
        others = [other for other in self.table.get(word.lower(), ()) if other.lower() != word.lower()]
        return list(dict.fromkeys(match_case(other, word) for other in others))[: self.candidates]


def temperature_note(target: "Target") -> str:
    """Return the note of searches that weight words by probabilities."""
    return f"probabilities, which weight words, are at temperature {target.temperature:.3g}, fitted on the clean rows"
