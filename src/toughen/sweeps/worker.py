"""Runs one trial in a process of its own: reads its scores, holds it to its limits, tries it again."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import require
from . import trial_process, trials

GRACE = 20.0  # seconds a trial has to save itself before it is killed
LOOK = 0.2  # seconds between two looks at a trial


@dataclass(frozen=True)
class Limits:
    """The limits of a trial, and how often it is retried."""

    metric: str
    retries: int = 1
    minutes: float | None = None
    memory_gb: float | None = None
    gpu: float = 0.0
    threads: int | None = None


@dataclass(frozen=True)
class Event:
    """What happened to a trial: nothing, a new score, another attempt, or the end."""

    kind: Literal["alive", "score", "retry", "done", "failed"]
    iteration: int = 0
    score: float | None = None
    error: str = ""

    @property
    def is_end(self) -> bool:
        return self.kind in ("done", "failed")


class Worker:
    """Runs trials one after the other."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.folder = limits, Path()
        self.process: subprocess.Popen[bytes] | None = None
        self._events: deque[Event] = deque()
        self._seen = self._attempt = 0
        self._since = 0.0

    def start(self, folder: Path) -> None:
        """Begin, or go on with, the run of a folder."""
        self.folder, self._attempt, self._seen = folder, 1, 0
        self._events.clear()
        self._read_scores()  # scores of an earlier start count: interruptions must not change when a trial is stopped
        self._launch()

    def _launch(self) -> None:
        source = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
        if self.limits.threads:
            environment["OMP_NUM_THREADS"] = str(self.limits.threads)
        (self.folder / trial_process.ERROR).unlink(missing_ok=True)
        command = [sys.executable, "-m", trial_process.__name__, str(self.folder), str(self.limits.gpu)]
        with (self.folder / trial_process.LOG).open("ab") as log:
            # A session of its own: Ctrl-C at the terminal is for the driver, which ends trials in order.
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._since = time.monotonic()

    def poll(self, seconds: float) -> Event:
        """Wait for the next event; `alive` after so many seconds without one."""
        until = time.monotonic() + seconds
        while True:
            if self._events:
                return self._events.popleft()
            code = self._wait(min(LOOK, max(until - time.monotonic(), 0.01)))
            exceeded = "" if code is not None else self._exceeded()
            if exceeded:
                self._kill()
            self._read_scores()
            if code is not None:
                self._finish(code)
            elif exceeded:
                self._retry(exceeded)
            elif time.monotonic() >= until and not self._events:
                return Event("alive", self._seen)

    def _wait(self, seconds: float) -> int | None:
        """Wait for the end of the process; its exit code, below 0 for a signal, or None while it runs."""
        if self.process is None:
            time.sleep(seconds)
            return None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None
        return code

    def _read_scores(self) -> None:
        scores = trials.scores(self.folder, self.limits.metric)
        for index in range(self._seen, len(scores)):
            self._events.append(Event("score", index + 1, scores[index]))
        self._seen = max(self._seen, len(scores))

    def _finish(self, code: int) -> None:
        if code == 0:
            now = trials.outcome(self.folder, self.limits.metric)
            self._events.append(Event("done", now.iteration, now.score))
            return
        file = self.folder / trial_process.ERROR
        error = file.read_text(encoding="utf-8") if code > 0 and file.is_file() else ""
        killed = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
        self._retry(error or f"{killed}{hint}; see {self.folder / trial_process.LOG}")

    def _retry(self, error: str) -> None:
        last = self._attempt > self.limits.retries
        trials.note_attempt(self.folder, error, last)
        if last:
            self._events.append(Event("failed", self._seen, error=error))
            return
        self._attempt += 1
        self._events.append(Event("retry", self._seen, error=error))
        self._launch()

    def _exceeded(self) -> str:
        """Name the limit that the trial exceeds, if any."""
        minutes, memory = self.limits.minutes, self.limits.memory_gb
        if self.process is None:
            return ""
        if minutes is not None and time.monotonic() - self._since > 60 * minutes:
            return f"took longer than resources.minutes={minutes:g}"
        if memory is not None and _memory(self.process.pid) > memory * 2**30:
            return f"used more memory than resources.memory_gb={memory:g}"
        return ""

    def _kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._wait(GRACE)

    def stop(self) -> None:
        """End the trial; it saves a checkpoint first if it can within a time."""
        if self.process is not None:
            self.process.terminate()
            if self._wait(GRACE) is None:
                self._kill()
        if self.folder.name:
            trials.clear_stopped(self.folder)

    def close(self) -> None:
        """End the trial that runs, if any."""
        if self.process is not None:
            self.stop()


def _memory(pid: int) -> int:
    """Bytes a process and its children hold."""
    psutil: Any = require("psutil", "sweep")
    try:
        process = psutil.Process(pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0
