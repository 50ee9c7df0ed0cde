"""Which runs there are, in the order of their worth; and what the tuning runs chose."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toughen.runs.method_config import cost_of
from toughen.tasks import difference
from toughen.tasks import task as task_named
from toughen.tuning.rule import Candidate, Change, choose

from .journal import Row, unpacked
from .protocol import (
    PLAIN_TEXTS,
    Protocol,
    Run,
    Settings,
    is_tuned,
    known_by,
    made_as,
    made_of,
    make,
    updates_of,
    written,
)

PHASES = ("rates", "settings", "tune", "board")
LINEAR, SECOND_ORDER, OWN_HEAD = "linear", "second_order", "second_order_own"
IN_A_CHUNK = 3  # runs that one process makes on one rig: graphs are used again, and nobody waits long for the last


class NotTuned(RuntimeError):
    """A choice is asked for before its tuning runs are made."""


def plan(phase: str, protocol: Protocol, model: str, rows: Sequence[Row]) -> list[list[Run]]:
    """The runs of a phase that are missing, as chunks that share a model, method and settings on the device."""
    stages = {"rates": _rates, "settings": _settings, "tune": _tune, "board": _board}[phase]
    done = {known_by(row) for row in rows}
    chunks: list[list[Run]] = []
    for stage in stages(protocol, model, rows):
        together: dict[tuple[Any, ...], list[Run]] = {}
        for run in stage:
            if run.known_by not in done:
                together.setdefault((*run.rig, run.times), []).append(run)
        parts = [runs[at : at + IN_A_CHUNK] for runs in together.values() for at in range(0, len(runs), IN_A_CHUNK)]
        # Plain first: nothing is worth anything without it. Then the dearest, or the others wait for it at the end.
        chunks += sorted(
            parts,
            key=lambda part: (part[0].method not in ("plain", PLAIN_TEXTS), -sum(work(run, protocol) for run in part)),
        )
    return chunks


def _rates(protocol: Protocol, model: str, rows: Sequence[Row]) -> Iterator[list[Run]]:
    yield [
        Run("rates", model, task.name, LINEAR, "plain", written({}), seed, rate)
        for task in protocol.all_tasks
        for rate in protocol.rates
        for seed in protocol.tuning_seeds
    ]


def _settings(protocol: Protocol, model: str, rows: Sequence[Row]) -> Iterator[list[Run]]:
    if model != protocol.tuning_model:
        return
    yield [
        Run("settings", model, task, LINEAR, method, written(settings), seed, chosen_rate(protocol, model, task, rows))
        for method, candidates in protocol.methods.items()
        if len(candidates) > 1 and not is_tuned(method)
        for settings in candidates
        for task in protocol.tuning_tasks
        for seed in protocol.tuning_seeds
    ]


def _tune(protocol: Protocol, model: str, rows: Sequence[Row]) -> Iterator[list[Run]]:
    """The candidates of tuned rows, and plain training beside them, all at plain training's best rate."""
    if model in protocol.few:
        return
    tuned = [method for method in methods_of(protocol, model, rows) if is_tuned(method)]
    rates = {task.name: chosen_rate(protocol, model, task.name, rows) for task in protocol.tasks} if tuned else {}
    yield [
        Run("tune", model, task, LINEAR, method, written(settings), seed, rate)
        for task, rate in rates.items()
        for method in ("plain", *tuned)
        for settings in protocol.methods[method]
        for seed in protocol.tuning_seeds
    ]


def methods_of(protocol: Protocol, model: str, rows: Sequence[Row]) -> list[str]:
    """The rows that a model gets."""
    if model in protocol.few:
        old = [method for method in protocol.methods if not is_tuned(method)]
        return ["plain", *best_methods(protocol, rows, old, protocol.best)]
    if model in protocol.large:
        return ["plain", *best_methods(protocol, rows, list(protocol.methods), protocol.best_large)]
    return list(protocol.methods)


def _board(protocol: Protocol, model: str, rows: Sequence[Row]) -> Iterator[list[Run]]:
    core = [task for task in protocol.tasks if task.name in protocol.mean_tasks]
    others = [task for task in protocol.tasks if task.name not in protocol.mean_tasks]
    rates = {task.name: chosen_rate(protocol, model, task.name, rows) for task in protocol.tasks}
    few = model in (*protocol.few, *protocol.large)
    methods = methods_of(protocol, model, rows)
    settings: dict[tuple[str, str], str] = {}
    for method in methods:
        fixed = None if is_tuned(method) else chosen_settings(protocol, method, rows)
        for task in protocol.tasks:
            with suppress(NotTuned):  # a tuned row comes once its tuning runs are made
                given = fixed if fixed is not None else tuned_settings(protocol, model, task.name, method, rows)
                if given is not None:  # else it is plain training
                    settings[method, task.name] = written(given)
    own = [task for task in protocol.tasks if task.name in protocol.own_heads]
    second = () if few else ((protocol.tasks, SECOND_ORDER), (own, OWN_HEAD))
    for tasks, head in ((core, LINEAR), (others, LINEAR), *second):
        for seeds in protocol.rounds:
            yield [
                Run("board", model, task.name, head, method, settings[method, task.name], seed, rates[task.name], times)
                for task in tasks
                for method in methods
                if (method, task.name) in settings
                if head == LINEAR or (task.second_order and method in protocol.second_order_methods)
                for seed in seeds
                for times in ((1, *protocol.more_epochs) if (method, head) == ("plain", LINEAR) else (1,))
            ]
    for seeds in () if few else protocol.rounds:
        yield [
            Run(
                "board",
                model,
                task.name,
                LINEAR,
                method,
                written(protocol.authors_settings(method, task.name)),
                seed,
                rates[task.name],
            )
            for task in core
            for method in protocol.authors
            for seed in seeds
        ]
    with suppress(NotTuned):
        rates |= {task.name: chosen_rate(protocol, model, task.name, rows) for task in protocol.text_tasks}
    by_task = (core, [task for task in (*others, *protocol.text_tasks) if task.name in rates])
    for longer in (False, True):  # the rows first, then plain training of equal compute: it takes twice as long as all
        for tasks in by_task:
            for seeds in protocol.rounds:
                yield [
                    Run("board", model, task.name, LINEAR, method, written(settings), seed, rates[task.name], times)
                    for task in tasks
                    for method, settings in protocol.text_methods.items()
                    if method == PLAIN_TEXTS or not longer
                    for seed in seeds
                    for times in (protocol.text_epochs if longer else (1,))
                ]


def work(run: Run, protocol: Protocol) -> float:
    """About how long a run takes, in units of a plain epoch over a thousand rows."""
    task, method = protocol.task(run.task), make(run.method, run.settings)
    return task.epochs * run.times * (task.train_rows or 3000) / 1000 * cost_of(method) / updates_of(method)


def chosen_rate(protocol: Protocol, model: str, task: str, rows: Sequence[Row]) -> float:
    """The learning rate with the highest mean score of plain training on held-out rows; of equals the smallest."""
    means: dict[float, float] = {}
    for rate in protocol.rates:
        found = [
            row["value"]
            for row in rows
            if (row["purpose"], row["model"], row["task"], row["rate"]) == ("rates", model, task, rate)
        ]
        if len(found) < len(protocol.tuning_seeds):
            raise NotTuned(f"{task} on {model}: learning rate {rate:g} has {len(found)} tuning runs; run phase rates.")
        means[rate] = fmean(found)
    return max(means, key=lambda rate: (means[rate], -rate))


@dataclass(frozen=True)
class Tried:
    """A candidate's means over the tuning seeds, on held-out training rows."""

    settings: Settings
    scores: Mapping[str, float]
    """By tuning task."""
    area: float
    """Under the PGD curve, over the tasks."""

    @property
    def clean(self) -> float:
        return fmean(self.scores.values())


def tried(protocol: Protocol, method: str, rows: Sequence[Row]) -> list[Tried]:
    """A method's candidates in their order."""
    wanted = len(protocol.tuning_tasks) * len(protocol.tuning_seeds)
    found: list[Tried] = []
    for settings in protocol.methods[method]:
        made = made_as(method, written(settings), former=True)
        own = [
            row
            for row in rows
            if (row["purpose"], row["model"], row["method"]) == ("settings", protocol.tuning_model, method)
            and made_of(row) == made
        ]
        if len(own) < wanted:
            raise NotTuned(f"{method} {written(settings)} has {len(own)} of {wanted} tuning runs; run phase settings.")
        scores = {task: fmean(row["value"] for row in own if row["task"] == task) for task in protocol.tuning_tasks}
        found.append(Tried(settings, scores, fmean(row["robust"]["pgd_area"] for row in own)))
    return found


def chosen_settings(protocol: Protocol, method: str, rows: Sequence[Row]) -> Settings:
    """A method's settings for all tasks and models: within `slack` of the best clean mean, the most robust.

    Of equals the first candidate.
    """
    if method in protocol.text_methods:
        return protocol.text_methods[method]
    if len(protocol.methods[method]) == 1:
        return protocol.methods[method][0]
    found = tried(protocol, method, rows)
    best = max(one.clean for one in found)
    return max((one for one in found if one.clean >= best - protocol.slack), key=lambda one: one.area).settings


def tuned_settings(protocol: Protocol, model: str, task: str, method: str, rows: Sequence[Row]) -> Settings | None:
    """The choice of `toughen tune` among a row's candidates, for PGD at the reference radius; None: plain training."""
    own = [row for row in rows if (row["purpose"], row["model"], row["task"]) == ("tune", model, task)]
    plain, *others = [
        _runs_of(protocol, own, name, settings)
        for name, settings in [("plain", {}), *((method, each) for each in protocol.methods[method])]
    ]
    choice = choose(
        _candidate({}, plain, plain),
        [_candidate(settings, runs, plain) for settings, runs in zip(protocol.methods[method], others, strict=True)],
    )
    return choice.settings if choice.clean_change is not None else None


def _runs_of(protocol: Protocol, rows: Sequence[Row], method: str, settings: Settings) -> list[Row]:
    """The tuning runs of a candidate, in the order of the seeds."""
    made = made_as(method, written(settings))
    own = [row for row in rows if row["method"] == method and made_of(row) == made]
    if len(own) < len(protocol.tuning_seeds):
        raise NotTuned(f"{method} {written(settings)} has {len(own)} tuning runs; run phase tune.")
    return sorted(own, key=lambda row: row["seed"])


def _candidate(settings: Settings, runs: Sequence[Row], plain: Sequence[Row]) -> Candidate:
    """Means over the seeds; differences from plain training over the rows of all seeds together."""
    scores = [
        fmean(values) for values in ([row["value"] for row in runs], [row["robust"]["pgd_reference"] for row in runs])
    ]
    seconds = fmean(row["seconds"]["train"] for row in runs)
    if runs is plain:
        return Candidate(settings, scores[0], seconds, robust=scores[1])
    clean, robust = _change("clean", runs, plain), _change("pgd", runs, plain)
    return Candidate(settings, scores[0], seconds, clean, scores[1], robust)


def _change(kind: str, runs: Sequence[Row], plain: Sequence[Row]) -> Change:
    first, second = ([each for row in some for each in unpacked(row["answers"][kind])] for some in (runs, plain))
    labels = [each for row in runs for each in _labels(row, kind)]
    about = task_named(runs[0]["task"])
    # Ranks need scipy, which the machine with the GPU may not have; rows are right or wrong under attack.
    metric = "pearson" if about.head == "regression" else about.primary_metric
    metric = "accuracy" if kind == "pgd" and about.is_single_label else metric
    found = difference(about, first, second, labels, metric)
    return Change(found.value, found.low, found.high)


def _labels(row: Row, kind: str) -> list[Any]:
    """The labels of the rows that were answered: the first ones are attacked."""
    return unpacked(row["answers"]["labels"])[: len(unpacked(row["answers"][kind]))]


def best_methods(protocol: Protocol, rows: Sequence[Row], methods: Sequence[str], count: int) -> list[str]:
    """Methods for the models that get few, by the tuning model's final runs with the linear head, on the mean's tasks.

    Of those that lose less than a point of plain's clean mean, the ones that no other beats both clean and under PGD;
    at most so many, by their clean means.
    """
    means: dict[str, tuple[float, float]] = {}
    final = [
        row
        for row in with_plain(protocol, rows)
        if (row["purpose"], row["model"], row["head"], row["times"]) == ("board", protocol.tuning_model, LINEAR, 1)
        and row["task"] in protocol.mean_tasks
    ]
    for method in methods:
        own = [row for row in final if row["method"] == method]
        if not is_tuned(method):
            settings = written(chosen_settings(protocol, method, rows))
            made = made_as(method, settings, former=True)  # by these the five were chosen
            own = [row for row in own if made_of(row) == made]
        wanted = len(protocol.mean_tasks) * len(protocol.seeds)
        if len(own) < wanted:
            raise NotTuned(
                f"{method} has {len(own)} of {wanted} final runs on {protocol.tuning_model}: it comes first."
            )
        means[method] = fmean(row["value"] for row in own), fmean(row["robust"]["pgd_reference"] for row in own)
    plain = means.pop("plain")
    means = {method: both for method, both in means.items() if both[0] > plain[0] - 0.01}
    front = [
        method
        for method, (clean, attacked) in means.items()
        if not any(c >= clean and a >= attacked and (c, a) != (clean, attacked) for c, a in means.values())
    ]
    return sorted(front, key=lambda method: -means[method][0])[:count]


def with_plain(protocol: Protocol, rows: Sequence[Row]) -> list[Row]:
    """Add plain training's final runs under the names of tuned rows, where the rule chooses plain training."""
    tuned = [method for method in protocol.methods if is_tuned(method)]
    found = list(rows)
    for model, task in dict.fromkeys((row["model"], row["task"]) for row in rows if row["purpose"] == "tune"):
        for method in tuned:
            with suppress(NotTuned):
                if tuned_settings(protocol, model, task, method, rows) is None:
                    found += [
                        {**row, "method": method}
                        for row in rows
                        if (row["purpose"], row["model"], row["task"]) == ("board", model, task)
                        and (row["method"], row["head"], row["times"]) == ("plain", LINEAR, 1)
                    ]
    return found


def of_today(protocol: Protocol, rows: Sequence[Row]) -> list[Row]:
    """Rows of the candidates; final ones of those that were chosen, where a choice can be made.

    A cell whose seeds are not all made again yet shows its former runs, if it has any.
    """
    wanted: dict[str, set[str]] = {}
    final: dict[str, str] = {}
    for method in (*protocol.methods, *protocol.text_methods):
        candidates = protocol.methods.get(method) or (protocol.text_methods[method],)
        wanted[method] = {made_as(method, written(s), former=former) for s in candidates for former in (True, False)}
        with suppress(NotTuned):
            final[method] = written(chosen_settings(protocol, method, rows))
    board = [row for row in rows if row["purpose"] == "board" and row["method"] in final]
    cells: dict[tuple[Any, ...], set[int]] = {}
    before = set[tuple[Any, ...]]()
    for row in board:
        if made_of(row) == made_as(row["method"], final[row["method"]]):
            cells.setdefault(_cell(row), set()).add(row["seed"])
        elif made_of(row) == made_as(row["method"], final[row["method"]], former=True):
            before.add(_cell(row))

    chosen: dict[tuple[str, str, str], str] = {}
    for key in {(row["model"], row["task"], row["method"]) for row in rows if row["purpose"] == "board"}:
        with suppress(NotTuned):
            if is_tuned(key[-1]) and (settings := tuned_settings(protocol, *key, rows)) is not None:
                chosen[key] = made_as(key[-1], written(settings))

    def shown(row: Row) -> bool:
        method = row["method"]
        if method in protocol.authors:
            return made_of(row) == made_as(method, written(protocol.authors_settings(method, row["task"])))
        if row["purpose"] == "board" and is_tuned(method):
            return made_of(row) == chosen.get((row["model"], row["task"], method))
        if row["purpose"] != "board" or method not in final:
            return made_of(row) in wanted.get(method, ())
        former = _cell(row) in before and not cells.get(_cell(row), set()) >= set(protocol.seeds)
        return made_of(row) == made_as(method, final[method], former=former)

    return with_plain(protocol, [row for row in rows if shown(row)])


def _cell(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "task", "head", "method", "times"))
