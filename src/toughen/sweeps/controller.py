"""The state of a sweep: which trial comes next and how each ended. Every engine uses it."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from . import trials
from .definition import Settings
from .folder import Folder
from .leaderboard import Row, ranked
from .optuna_search import Pruner, make_sampler
from .progress import Status, SweepProgress
from .trials import Outcome, Trial
from .validation import grid
from .worker import Event

Wait = Literal["wait"]


@dataclass
class _RowState:
    """A row of settings, its trials and their outcomes."""

    settings: Settings
    trials: dict[int, Trial]
    outcomes: dict[int, Outcome] = field(default_factory=dict[int, Outcome])
    iteration: int = 0  # of the first seed: the last one that the pruner has seen


class Controller:
    """Hands out trials and takes their events; reads from the run folders what an earlier start finished.

    With early stopping the pruner judges the first seed of a row; the other seeds run when that one is done.
    """

    def __init__(
        self,
        folder: Folder,
        metric: str,
        progress: SweepProgress,
        changed: "Callable[[Controller], None]" = lambda _: None,
    ) -> None:
        self.folder, self.metric, self.progress, self._changed = folder, metric, progress, changed
        self.definition = folder.definition
        self._planned = len(grid(self.definition)) if self.definition.search == "grid" else self.definition.trials or 0
        self.trials: dict[str, Trial] = {}
        self.running: dict[str, tuple[Trial, Event]] = {}
        self.began = time.monotonic()
        self.ended = 0  # trials of this start
        self._over = False
        self._queue: deque[Trial] = deque()
        self._rows: dict[int, _RowState] = {}
        self._pruner = Pruner(self.definition)
        self._sampler = make_sampler(self.definition, folder.rows)
        for number, settings in enumerate(folder.rows, 1):
            self._open(number, settings)

    def _open(self, number: int, settings: Settings) -> None:
        """Add a row: read its finished trials from their folders, queue the others."""
        base, path = self.definition.base, self.folder.path
        made = {seed: trials.make(path, base, number, seed, settings) for seed in self.definition.seeds}
        state = self._rows[number] = _RowState(settings, made)
        self.trials |= {trial.name: trial for trial in made.values()}
        for seed, trial in made.items():
            known = trials.outcome(trial.folder, self.metric)
            # A trial that failed in an earlier start is tried again: the cause may be gone.
            state.outcomes[seed] = known if known.state in ("done", "stopped") else Outcome("missing")
        first = made[self.definition.seeds[0]]
        before = state.outcomes[first.seed]
        if before.state != "missing":
            for iteration, score in enumerate(trials.scores(first.folder, self.metric)[: before.iteration], 1):
                self._pruner.should_stop(number, iteration, score)
            self._update_samplers(number, first)
        else:
            self._queue.append(first)
        if self.definition.early is None or before.state == "done":
            self._queue_others(number)

    def _queue_others(self, number: int) -> None:
        state = self._rows[number]
        others = [trial for seed, trial in state.trials.items() if seed != self.definition.seeds[0]]
        self._queue.extend(trial for trial in others if state.outcomes[trial.seed].state == "missing")

    def next_trial(self) -> Trial | Wait | None:
        """Return the next trial, `wait` while it depends on a running one, or None when there is no more."""
        while not self._queue:
            settings = self._sampler.propose()
            if settings is None:
                waits = self.definition.early is not None and len(self.definition.seeds) > 1
                if self.running and waits:
                    return "wait"
                self._over = True
                return None
            self._open(self.folder.add(settings), settings)
        trial = self._queue.popleft()
        self.running[trial.name] = (trial, Event("alive"))
        self.progress.started(trial, self.status())
        return trial

    def on_event(self, trial: Trial, event: Event) -> bool:
        """Record an event of a trial; return True if the trial has to stop."""
        state = self._rows[trial.row]
        if event.kind == "score" and event.score is not None and trial.seed == self.definition.seeds[0]:
            fresh = event.iteration > state.iteration
            state.iteration = max(state.iteration, event.iteration)
            if fresh and self._pruner.should_stop(trial.row, event.iteration, event.score):
                trials.note_stop(trial.folder, event.iteration, event.score)
                self._end(trial, f"stopped after {event.iteration} evaluations at {event.score:.4f}")
                return True
        if event.is_end:
            self._end(trial, event.error or f"{self.metric} {event.score:.4f}")
        elif trial.name in self.running:
            if event.kind == "retry":
                self.progress.line(f"{trial.name}: another attempt after: {event.error}")
            last = self.running[trial.name][1]
            self.running[trial.name] = (trial, event if event.score is not None else last)
            self.progress.show(self.status())
        return False

    def on_worker_lost(self, trial: Trial, error: str) -> None:
        """Record that the worker of a trial is lost and Ray does not restart it."""
        trials.note_attempt(trial.folder, error, True)
        self._end(trial, error)

    def _end(self, trial: Trial, message: str) -> None:
        self.running.pop(trial.name, None)
        self.ended += 1
        now = self._rows[trial.row].outcomes[trial.seed] = trials.outcome(trial.folder, self.metric)
        self._update_samplers(trial.row, trial)
        if now.state == "done" and self.definition.early is not None and trial.seed == self.definition.seeds[0]:
            self._queue_others(trial.row)
        self._changed(self)
        self.progress.ended(trial, now, message, self.status())

    def _update_samplers(self, number: int, trial: Trial) -> None:
        """Report the trial to the pruner and, when the row is complete, the row to the sampler."""
        state = self._rows[number]
        now = state.outcomes[trial.seed]
        if trial.seed == self.definition.seeds[0]:
            self._pruner.finish(number, now.score if now.state == "done" else None, now.state == "stopped")
        row = Row(number, state.settings, state.outcomes)
        if all(each.state != "missing" for each in state.outcomes.values()) or self._skipped_seeds(row):
            self._sampler.finish(number, row.mean, stopped=row.state == "stopped")

    def rows(self) -> list[Row]:
        """Return all rows so far, best first."""
        found = [Row(number, state.settings, dict(state.outcomes)) for number, state in self._rows.items()]
        return ranked(found, self.definition.sign)

    @property
    def is_complete(self) -> bool:
        """Whether all trials have ended and no more come."""
        return self._over and not self.running

    def status(self) -> Status:
        """Count the trials by state and estimate the time left."""
        states = [each.state for state in self._rows.values() for each in state.outcomes.values()]
        count = {state: states.count(state) for state in ("done", "stopped", "failed")}
        rows = self.rows()
        total = (len(self._rows) if self._over else self._planned) * len(self.definition.seeds)
        total -= sum(self._skipped_seeds(row) for row in rows)
        left = total - sum(count.values())
        rate = self.ended / max(time.monotonic() - self.began, 1e-9)
        best = rows[0] if rows and rows[0].state == "done" else None
        return Status(total, **count, running=self._running_scores(), best=best, eta=left / rate if rate else None)

    def _skipped_seeds(self, row: Row) -> int:
        """Count the seeds that do not run because the first seed of the row was stopped or failed."""
        first = row.outcomes[self.definition.seeds[0]].state
        if self.definition.early is None or first not in ("stopped", "failed"):
            return 0
        return sum(each.state == "missing" for each in row.outcomes.values())

    def _running_scores(self) -> list[tuple[str, str]]:
        return [
            (trial.name, "" if last.score is None else f"{self.metric} {last.score:.4f} after {last.iteration}")
            for trial, last in self.running.values()
        ]

    # Tune copies and pickles its arguments for a restart of its own; a sweep restarts from its folders instead.
    def __deepcopy__(self, memo: object) -> "Controller":
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self.folder.path),)
