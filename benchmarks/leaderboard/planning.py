"""Which runs there are, in the order of their worth; and what the tuning runs chose."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toughen.runs.method_config import cost_of

from .journal import Row
from .protocol import PLAIN_TEXTS, Protocol, Run, Settings, known_by, made_as, made_of, make, updates_of, written

PHASES = ("rates", "settings", "board")
LINEAR, SECOND_ORDER, OWN_HEAD = "linear", "second_order", "second_order_own"
IN_A_CHUNK = 3  # runs that one process makes on one rig: graphs are used again, and nobody waits long for the last


class NotTuned(RuntimeError):
    """A choice is asked for before its tuning runs are made."""


def plan(phase: str, protocol: Protocol, model: str, rows: Sequence[Row]) -> list[list[Run]]:
    """The runs of a phase that are missing, as chunks that share a model, method and settings on the device."""
    stages = {"rates": _rates, "settings": _settings, "board": _board}[phase]
    done = {known_by(row) for row in rows}
    chunks: list[list[Run]] = []
    for stage in stages(protocol, model, rows):
        together: dict[tuple[Any, ...], list[Run]] = {}
        for run in stage:
            if run.known_by not in done:
                together.setdefault((*run.rig, run.times), []).append(run)
        parts = [runs[at : at + IN_A_CHUNK] for runs in together.values() for at in range(0, len(runs), IN_A_CHUNK)]
        # Plain first: nothing is worth anything without it. Then the dearest, or the others wait for it at the end.
        chunks += sorted(parts, key=lambda part: (part[0].method != "plain", -sum(work(run, protocol) for run in part)))
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
        if len(candidates) > 1
        for settings in candidates
        for task in protocol.tuning_tasks
        for seed in protocol.tuning_seeds
    ]


def _board(protocol: Protocol, model: str, rows: Sequence[Row]) -> Iterator[list[Run]]:
    core = [task for task in protocol.tasks if task.name in protocol.mean_tasks]
    others = [task for task in protocol.tasks if task.name not in protocol.mean_tasks]
    rates = {task.name: chosen_rate(protocol, model, task.name, rows) for task in protocol.tasks}
    few = model in protocol.few
    methods = ["plain", *best_methods(protocol, rows)] if few else list(protocol.methods)
    settings = {method: written(chosen_settings(protocol, method, rows)) for method in methods}
    own = [task for task in protocol.tasks if task.name in protocol.own_heads]
    second = () if few else ((protocol.tasks, SECOND_ORDER), (own, OWN_HEAD))
    for tasks, head in ((core, LINEAR), (others, LINEAR), *second):
        for seeds in protocol.rounds:
            yield [
                Run("board", model, task.name, head, method, settings[method], seed, rates[task.name], times)
                for task in tasks
                for method in methods
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
    for tasks in (core, [task for task in (*others, *protocol.text_tasks) if task.name in rates]):
        for seeds in protocol.rounds:
            yield [
                Run("board", model, task.name, LINEAR, method, written(settings), seed, rates[task.name], times)
                for task in tasks
                for method, settings in protocol.text_methods.items()
                for seed in seeds
                for times in ((1, *protocol.text_epochs) if method == PLAIN_TEXTS else (1,))
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


def best_methods(protocol: Protocol, rows: Sequence[Row]) -> list[str]:
    """Methods for the models that get few, by the tuning model's final runs with the linear head, on the mean's tasks.

    Of those that lose less than a point of plain's clean mean, the ones that no other beats both clean and under PGD;
    at most `best`, by their clean means.
    """
    means: dict[str, tuple[float, float]] = {}
    for method in protocol.methods:
        settings = written(chosen_settings(protocol, method, rows))
        made = made_as(method, settings, former=True)  # by these the five were chosen
        own = [
            row
            for row in rows
            if (row["purpose"], row["model"], row["head"]) == ("board", protocol.tuning_model, LINEAR)
            and (row["method"], row["times"], made_of(row)) == (method, 1, made)
            and row["task"] in protocol.mean_tasks
        ]
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
    return sorted(front, key=lambda method: -means[method][0])[: protocol.best]


def of_today(protocol: Protocol, rows: Sequence[Row]) -> list[Row]:
    """Rows of the candidates; final ones of those that were chosen, where a choice can be made.

    A cell whose seeds are not all made again yet shows its former runs.
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
    for row in board:
        if made_of(row) == made_as(row["method"], final[row["method"]]):
            cells.setdefault(_cell(row), set()).add(row["seed"])

    def shown(row: Row) -> bool:
        method = row["method"]
        if method in protocol.authors:
            return made_of(row) == made_as(method, written(protocol.authors_settings(method, row["task"])))
        if row["purpose"] != "board" or method not in final:
            return made_of(row) in wanted.get(method, ())
        former = not cells.get(_cell(row), set()) >= set(protocol.seeds)
        return made_of(row) == made_as(method, final[method], former=former)

    return [row for row in rows if shown(row)]


def _cell(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "task", "head", "method", "times"))
