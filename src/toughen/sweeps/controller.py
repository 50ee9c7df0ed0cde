"""The state of a sweep: which trial comes next and how each ended. All of it is read from the run folders."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from . import trials
from .folder import Folder
from .leaderboard import Row, ranked
from .progress import Status, SweepProgress
from .search import Search
from .trials import Outcome, Trial
from .validation import grid
from .worker import Event


class Controller:
    """Hands out trials and takes their events, from several threads; knows what an earlier start finished.

    With early stopping the pruner judges the first seed of a row; the other seeds run when that one is done.
    """

    def __init__(
        self,
        folder: Folder,
        metric: str,
        progress: SweepProgress,
        changed: "Callable[[Controller], None]" = lambda _: None,
        until: float = math.inf,
    ) -> None:
        self.folder, self.metric, self.progress, self._changed = folder, metric, progress, changed
        self._until = until  # on the monotonic clock: after it no trial but the first begins
        self.definition = given = folder.definition
        self._planned = len(grid(given)) if given.search == "grid" else given.trials or 0
        self._running: dict[str, str] = {}  # trial -> its last score, as text
        self._began, self._ended = time.monotonic(), 0  # trials of this start
        self._over = False  # no row comes after those that there are
        self._queue: deque[Trial] = deque()
        self._rows: dict[int, Row] = {}
        self._judged: dict[int, int] = {}  # row -> the last evaluation of its first seed that the pruner has seen
        self._search = Search(given, folder.rows)
        self._lock = threading.RLock()
        for number, settings in enumerate(folder.rows, 1):
            self._open(Row(number, settings, {}))

    def _open(self, row: Row) -> None:
        """Add a row: read its finished trials from their folders, queue the others."""
        self._rows[row.number] = row
        for seed in self.definition.seeds:
            folder = self._trial(row, seed).folder
            known = trials.outcome(folder, self.metric)
            # A trial that failed in an earlier start is tried again: the cause may be gone.
            row.outcomes[seed] = known if known.state in ("done", "stopped") else Outcome("missing")
            if seed == self.definition.seeds[0]:
                for iteration, score in enumerate(
                    trials.scores(folder, self.metric)[: row.outcomes[seed].iteration], 1
                ):
                    self._search.should_stop(row.number, iteration, score)
        self._enqueue(row)
        self._finish_row(row)

    def _trial(self, row: Row, seed: int) -> Trial:
        return trials.make(self.folder.path, self.definition.base, row.number, seed, row.settings)

    def _enqueue(self, row: Row) -> None:
        """Queue the trials of a row that can run now."""
        seeds = self.definition.seeds
        if self.definition.early is not None and row.outcomes[seeds[0]].state != "done":
            seeds = seeds[:1]
        self._queue.extend(self._trial(row, seed) for seed in seeds if row.outcomes[seed].state == "missing")

    def _finish_row(self, row: Row) -> None:
        """Report a complete row to the search."""
        missing = sum(each.state == "missing" for each in row.outcomes.values())
        if missing == self._skipped_seeds(row):
            self._search.finish(row.number, row.mean, stopped=row.state == "stopped")

    def next_trial(self) -> Trial | None:
        """Return the next trial; None if there is none now, and none at all when the sweep is complete."""
        with self._lock:
            if time.monotonic() > self._until and (self._running or self._ended):  # one trial at least
                self._queue.clear()
                self._over = True
            while not self._queue and not self._over:
                settings = self._search.propose()
                if settings is None:
                    self._over = True
                else:
                    self._open(Row(self.folder.add(settings), settings, {}))
            if not self._queue:
                return None
            trial = self._queue.popleft()
            self._running[trial.name] = ""
            self.progress.started(trial, self.status())
            return trial

    def on_event(self, trial: Trial, event: Event) -> bool:
        """Record an event of a trial; return True if the trial has to stop."""
        with self._lock:
            if event.kind == "score" and event.score is not None:
                self._running[trial.name] = f"{self.metric} {event.score:.4f} after {event.iteration}"
                if self._prunes(trial, event.iteration, event.score):
                    trials.note_stop(trial.folder, event.iteration, event.score)
                    self._end(trial, f"stopped after {event.iteration} evaluations at {event.score:.4f}")
                    return True
            if event.is_end:
                self._end(trial, event.error or f"{self.metric} {event.score:.4f}")
            else:
                if event.kind == "retry":
                    self.progress.line(f"{trial.name}: another attempt after: {event.error}")
                self.progress.show(self.status())
            return False

    def _prunes(self, trial: Trial, iteration: int, score: float) -> bool:
        if trial.seed != self.definition.seeds[0] or iteration <= self._judged.get(trial.row, 0):
            return False
        self._judged[trial.row] = iteration
        return self._search.should_stop(trial.row, iteration, score)

    def _end(self, trial: Trial, message: str) -> None:
        row, early = self._rows[trial.row], self.definition.early is not None
        self._running.pop(trial.name, None)
        self._ended += 1
        now = row.outcomes[trial.seed] = trials.outcome(trial.folder, self.metric)
        self._finish_row(row)
        if now.state == "done" and early and trial.seed == self.definition.seeds[0]:
            self._enqueue(row)
        self._changed(self)
        self.progress.ended(trial, now, message, self.status())

    def rows(self) -> list[Row]:
        """Return all rows so far, best first."""
        return ranked(list(self._rows.values()), self.definition.sign)

    @property
    def best(self) -> Row | None:
        """Return the row with the best mean among those whose seeds all finished."""
        return next((row for row in self.rows() if row.state == "done"), None)

    @property
    def is_complete(self) -> bool:
        """Whether all trials have ended and no more come."""
        with self._lock:
            return self._over and not self._running and not self._queue

    def status(self) -> Status:
        """Count the trials by state and estimate the time left."""
        rows = self.rows()
        states = [each.state for row in rows for each in row.outcomes.values()]
        count = {state: states.count(state) for state in ("done", "stopped", "failed")}
        total = (len(rows) if self._over else self._planned) * len(self.definition.seeds)
        total -= sum(map(self._skipped_seeds, rows))
        seconds = (time.monotonic() - self._began) / self._ended if self._ended else None
        eta = None if seconds is None else seconds * (total - sum(count.values()))
        return Status(total, **count, running=list(self._running.items()), best=self.best, eta=eta)

    def _skipped_seeds(self, row: Row) -> int:
        """Count the seeds that do not run because the first seed of the row was stopped or failed."""
        first = row.outcomes[self.definition.seeds[0]].state
        if self.definition.early is None or first not in ("stopped", "failed"):
            return 0
        return sum(each.state == "missing" for each in row.outcomes.values())
