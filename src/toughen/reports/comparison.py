"""Runs side by side: mean over seeds, difference from a reference, tests, cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from ..statistics import (
    PairedTestResult,
    Summary,
    bootstrap_of,
    cost,
    cost_ratio,
    mcnemar,
    paired_bootstrap,
    paired_t,
    summarise,
)
from .attacks import Attack
from .folder import Arm, ReportError, Run, is_numeric, unique_names
from .formatting import lower_is_better

By = Literal["run", "method"]
FEW = 20  # attacked examples in common: fewer tell nothing


@dataclass(frozen=True)
class Member:
    """One arm of one run: the method, or the plain baseline trained beside it."""

    run: Run
    arm: Arm

    @property
    def method(self) -> str:
        return "plain" if self.arm == "baseline" else self.run.method

    @property
    def attacks(self) -> list[Attack]:
        return [attack for attack in self.run.attacks if attack.arm == self.arm]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    task: str
    summary: Summary
    cost: dict[str, float]
    reference: str = ""
    """The row that it is held against: its own run's plain baseline, else the table's reference. Empty for these."""
    ratio: dict[str, float] = field(default_factory=dict[str, float])
    over_seeds: PairedTestResult | None = None
    over_rows: tuple[PairedTestResult, ...] = ()
    """On the predictions of the best seed that both have."""
    members: tuple[Member, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Rows of one metric; the reference of all that have none of their own first.

    Args:
        metric: The metric of the scores.
        rows: A row for each method, the reference first.
        notes: What a reader of the table must know.

    Examples:
        >>> toughen.reports.compare_runs(toughen.reports.find_runs([run]))[0].best.name
        'freelb'
    """

    metric: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def sign(self) -> int:
        """-1 for a metric of which less is better."""
        return -1 if lower_is_better(self.metric) else 1

    @property
    def reference(self) -> str:
        """What the rows are held against, in words."""
        names = {row.reference for row in self.rows} - {""}
        return names.pop() if len(names) == 1 else "its own plain"

    @property
    def best(self) -> Row:
        """The row with the best mean."""
        return self.ranked(self.rows)[0]

    def ranked(self, rows: Sequence[Row]) -> list[Row]:
        """Sort rows by their means, the best first."""
        return sorted(rows, key=lambda row: -self.sign * row.summary.mean)


def compare_runs(runs: Sequence[Run], *, by: By = "run", metric: str | None = None) -> list[Comparison]:
    """Make one table a task. A run is held against its own plain baseline; without one against the first plain
    fine-tuning of the table, else against the first run.

    Runs on files of one name with different answers are different tasks.

    Args:
        runs: What `find_runs` returned.
        by: One row for each run, or for each method.
        metric: By default the one that selects.

    Returns:
        A table for each task.

    Raises:
        ReportError: No run has the metric.

    Examples:
        >>> from toughen.reports import compare_runs, find_runs
        >>> compare_runs(find_runs([run]))[0].metric
        'accuracy'
    """
    if by not in ("run", "method"):
        raise ReportError(f"by={by!r} is not known: give 'run' or 'method'.")
    tasks: dict[tuple[str, tuple[str, ...]], list[Run]] = {}
    for run in unique_names(runs):
        tasks.setdefault((run.results.task, run.answers), []).append(run)
    often = Counter(name for name, _ in tasks)
    titles = [name if often[name] == 1 else f"{name} ({_short(answers)})" for name, answers in tasks]
    return [_compare(own, title, by, metric) for own, title in zip(tasks.values(), titles, strict=True)]


def _compare(runs: Sequence[Run], task: str, by: By, metric: str | None) -> Comparison:
    name = metric or runs[0].metric
    groups: dict[str, list[Member]] = {}
    arms: tuple[Arm, ...] = ("baseline", "method")
    members = [Member(run, arm) for run in runs for arm in arms if arm == "method" or run.seeds(arm)]
    labels = [member.method for member in members] if by == "method" else _labels(members)
    for label, member in zip(labels, members, strict=True):
        if member.run.scores(member.arm, name):
            groups.setdefault(label, []).append(member)
    if not groups:
        known = sorted({key for run in runs for seed in run.seeds() for key in seed.metrics})
        raise ReportError(f"no run has the metric {name!r}: there are {', '.join(known)}.")
    plain = next((label for label, members in groups.items() if members[0].method == "plain"), None)
    first = plain or next(iter(groups))
    order = [first, *(label for label in groups if label != first)]
    rows = [_row(label, task, groups[label], _reference(label, first, groups), name, groups) for label in order]
    without = [run.name for run in runs if not any(run.scores(arm, name) for arm in arms)]
    left_out = [f"Left out, as they have no {name}: {', '.join(without)}."] if without else []
    return Comparison(name, rows, (*left_out, *_notes(runs, rows)))


def _reference(label: str, first: str, groups: Mapping[str, Sequence[Member]]) -> str:
    """Return the row that holds the own baselines of all these runs, else the first; none for a baseline."""
    members = groups[label]
    if label == first or members[0].arm == "baseline":
        return ""
    own = [name for m in members for name, others in groups.items() if Member(m.run, "baseline") in others]
    return own[0] if len(own) == len(members) and len(set(own)) == 1 else first


def _short(answers: Sequence[str]) -> str:
    return ", ".join(answers) if len(answers) < 4 else f"{answers[0]}, {answers[1]} ... {len(answers)} classes"


def _labels(members: Sequence[Member]) -> list[str]:
    """Return the method's name where one run has it, else the folder's; both where a folder is called like a method."""
    methods = Counter(member.method for member in members)
    plain = {"baseline": " (plain)", "method": ""}
    names = [m.method if methods[m.method] == 1 else f"{m.run.name}{plain[m.arm]}" for m in members]
    often = Counter(names)
    pairs = zip(names, members, strict=True)
    return [name if often[name] == 1 else f"{member.run.name} ({member.method})" for name, member in pairs]


def _row(
    name: str, task: str, members: Sequence[Member], against: str, metric: str, groups: Mapping[str, Sequence[Member]]
) -> Row:
    scores = [score for m in members for score in m.run.scores(m.arm, metric).values()]
    spent = _cost(members)
    if not against:
        return Row(name, task, summarise(scores), spent, members=tuple(members))
    reference = groups[against]
    seeds = paired_t(_by_seed(members, metric), _by_seed(reference, metric))
    ratio, rows = cost_ratio(spent, _cost(reference)), _on_rows(members, reference)
    return Row(name, task, summarise(scores), spent, against, ratio, seeds, rows, tuple(members))


def _cost(members: Sequence[Member]) -> dict[str, float]:
    return cost([vars(seed) for m in members for seed in m.run.seeds(m.arm)])


def _by_seed(members: Sequence[Member], metric: str) -> dict[int, float]:
    """Return scores by seed; a seed that several runs of a group have counts with its mean."""
    scores: dict[int, list[float]] = {}
    for member in members:
        for seed, score in member.run.scores(member.arm, metric).items():
            scores.setdefault(seed, []).append(score)
    return {seed: fmean(values) for seed, values in scores.items()}


def _on_rows(members: Sequence[Member], reference: Sequence[Member]) -> tuple[PairedTestResult, ...]:
    for ours in members:
        for theirs in reference:
            shared = ours.run.scores(ours.arm).keys() & theirs.run.scores(theirs.arm).keys()
            for seed in sorted(shared, key=lambda s: -ours.run.scores(ours.arm)[s]):
                a, b = (m.run.predictions(seed, arm=m.arm) for m in (ours, theirs))
                # The same labels in the same order, and answers that are classes.
                if a and b and a.labels and a.labels == b.labels and not is_numeric(a.answers[:50]):
                    return tuple(test(a.answers, b.answers, a.labels) for test in (mcnemar, paired_bootstrap))
    return ()


def difference_of(row: Row) -> PairedTestResult | None:
    """Return the difference over seeds if they give an interval, else the one on the rows of one seed."""
    test = row.over_seeds
    if test is None or not test.count:
        return None
    over_rows = next((each for each in row.over_rows if each.low is not None), None)
    return over_rows if test.low is None and over_rows is not None else test


def under_attack(table: Comparison) -> dict[tuple[str, str], dict[str, PairedTestResult]]:
    """Return attack and its terms -> row -> difference from its reference in after-attack accuracy, on the examples
    that both kept.

    Of one budget: under another, more examples stay right whatever the model.
    """
    tests: dict[tuple[str, str], dict[str, PairedTestResult]] = {}
    survivals = {row.name: _survivals(row) for row in table.rows}
    for row in (row for row in table.rows if row.reference):
        for kind, held in survivals[row.name].items():
            other = survivals[row.reference].get(kind, {})
            shared = sorted(held.keys() & other.keys())
            if len(shared) >= FEW:
                tests.setdefault(kind, {})[row.name] = bootstrap_of([held[key] - other[key] for key in shared])
    return tests


def _survivals(row: Row) -> dict[tuple[str, str], dict[tuple[int, str], float]]:
    """Return attack and its terms -> (number and text of an example) -> the share of seeds that answer it correctly."""
    survivals: dict[tuple[str, str], dict[tuple[int, str], float]] = {}
    for member in row.members:
        for attack in member.attacks:
            kind = attack.title, attack.terms
            if kind in survivals:
                continue
            seeds = [each for source in attack.sources if (each := dict(_survived(member.run.outcomes(source))))]
            shared = set.intersection(*map(set, seeds)) if seeds else set[tuple[int, str]]()
            survivals |= {kind: {key: fmean(seed[key] for seed in seeds) for key in shared}} if shared else {}
    return survivals


def _survived(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[int, str], bool]]:
    """Yield each example, and whether it is right at the full budget; of curves if its label was kept."""
    for row in rows:
        if "status" in row:
            yield (int(row["index"]), str(row.get("original"))), row["status"] == "failed"
        elif "text" in row and row.get("answers"):
            yield (int(row["index"]), str(row["text"])), row["answers"][-1] == row["label"]


def _notes(runs: Sequence[Run], rows: Sequence[Row]) -> Iterator[str]:
    models = sorted({run.results.model for run in runs})
    if len(models) > 1:
        yield f"The models differ: {', '.join(models)}."
    sizes = {repr(run.results.data) for run in runs}
    if len(sizes) > 1:
        yield "The runs saw different numbers of rows."
    if (tests := sum(bool(row.reference) for row in rows)) > 1:
        yield f"{tests} comparisons: p values are not corrected for their number."
