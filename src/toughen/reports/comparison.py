"""Runs side by side: mean over seeds, difference from a reference, tests, cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from ..statistics import PairedTestResult, Summary, cost, cost_ratio, mcnemar, paired_bootstrap, paired_t, summarise
from .attack_means import Attack
from .folder import Arm, ReportError, Run, is_numeric, unique_names
from .formatting import LOWER

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
    ratio: dict[str, float] = field(default_factory=dict[str, float])
    over_seeds: PairedTestResult | None = None
    over_rows: tuple[PairedTestResult, ...] = ()
    """On the predictions of the best seed that both have."""
    members: tuple[Member, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Rows of one metric; the reference first."""

    metric: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def sign(self) -> int:
        """-1 for a metric of which less is better."""
        return -1 if self.metric in LOWER else 1

    @property
    def best(self) -> Row:
        """The row with the best mean."""
        return self.ranked(self.rows)[0]

    def ranked(self, rows: Sequence[Row]) -> list[Row]:
        """Sort rows by their means, the best first."""
        return sorted(rows, key=lambda row: -self.sign * row.summary.mean)


def compare_runs(runs: Sequence[Run], *, by: By = "run", metric: str | None = None) -> list[Comparison]:
    """Make one table a task. The reference is plain fine-tuning where it is among them, else the first run.

    Runs on files of one name with different answers are different tasks.
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
    reference = groups[first]
    rows = [_row(label, task, groups[label], None if label == first else reference, name) for label in order]
    without = [run.name for run in runs if not any(run.scores(arm, name) for arm in arms)]
    left_out = [f"Left out, as they have no {name}: {', '.join(without)}."] if without else []
    return Comparison(name, rows, (*left_out, *_notes(runs, groups)))


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


def _row(name: str, task: str, members: Sequence[Member], reference: Sequence[Member] | None, metric: str) -> Row:
    scores = [score for m in members for score in m.run.scores(m.arm, metric).values()]
    spent = _cost(members)
    if reference is None:
        return Row(name, task, summarise(scores), spent, members=tuple(members))
    seeds = paired_t(_by_seed(members, metric), _by_seed(reference, metric))
    ratio, rows = cost_ratio(spent, _cost(reference)), _on_rows(members, reference)
    return Row(name, task, summarise(scores), spent, ratio, seeds, rows, tuple(members))


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


def under_attack(table: Comparison) -> dict[str, dict[str, PairedTestResult]]:
    """Return attack -> row -> difference from the reference in after-attack accuracy, on the examples that both kept.

    Of one budget: under another, more examples stay right whatever the model.
    """
    tests: dict[str, dict[str, PairedTestResult]] = {}
    base = _survivals(table.rows[0])
    for row in table.rows[1:] if base else ():
        for (title, terms), held in _survivals(row).items():
            other = base.get((title, terms), {})
            shared = sorted(held.keys() & other.keys())
            if len(shared) >= FEW:
                ours, theirs = ([each[key] for key in shared] for each in (held, other))
                tests.setdefault(title, {})[row.name] = paired_bootstrap(ours, theirs, [True] * len(shared))
    return tests


def _survivals(row: Row) -> dict[tuple[str, str], dict[tuple[int, str], bool]]:
    """Return attack and its terms -> (number and text of an example) -> whether its answer was right and stayed so."""
    survivals: dict[tuple[str, str], dict[tuple[int, str], bool]] = {}
    for member in row.members:
        for attack in member.attacks:
            kind = attack.title, attack.terms
            if kind not in survivals:
                rows = member.run.attacked_rows(attack)
                survived = {(int(r["index"]), str(r.get("original"))): r.get("status") == "failed" for r in rows}
                survivals |= {kind: survived} if survived else {}
    return survivals


def _notes(runs: Sequence[Run], groups: dict[str, list[Member]]) -> Iterator[str]:
    models = sorted({run.results.model for run in runs})
    if len(models) > 1:
        yield f"The models differ: {', '.join(models)}."
    sizes = {repr(run.results.data) for run in runs}
    if len(sizes) > 1:
        yield "The runs saw different numbers of rows."
    if len(groups) > 2:
        yield f"{len(groups) - 1} comparisons with one reference: p values are not corrected for it."
