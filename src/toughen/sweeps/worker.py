"""Runs one trial in a process of its own: reads its scores, holds it to its limits, tries it again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import require
from . import trial_process, trials
from .definition import Definition

GRACE = 20.0  # seconds a trial has to save itself before it is killed
LOOK = 0.2  # seconds between two looks at a trial
HEARTBEAT = 1.0  # seconds between two events of a trial that brings nothing new: after each it can be stopped


@dataclass(frozen=True)
class Limits:
    """The limits of a trial, and how often it is retried."""

    metric: str
    retries: int = 1
    minutes: float | None = None
    memory_gb: float | None = None
    gpu: float = 0.0
    threads: int | None = None

    @classmethod
    def of(cls, definition: Definition, metric: str, gpu: float = 0.0, cpu: float | None = None) -> "Limits":
        """Collect the limits that the sweep file sets for a trial with these GPUs and CPUs."""
        given = definition.resources
        threads = max(int(cpu), 1) if cpu else None
        return cls(metric, definition.retries, given.minutes, given.memory_gb, gpu, threads)


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
        self.limits = limits
        self._folder: Path | None = None
        self._events: Generator[Event] = run_trial(Path(), limits)  # `start` gives another; none begins before a poll

    def start(self, folder: Path) -> None:
        """Prepare to run a folder, or to go on with it; `poll` starts it."""
        self._folder, self._events = folder, run_trial(folder, self.limits)

    def poll(self) -> Event:
        """Return the next event; `alive` after a while without one."""
        return next(self._events)

    def stop(self) -> None:
        """End the trial, if one runs; it saves a checkpoint first if it can within a time."""
        self._events.close()
        if self._folder is not None:
            trials.clear_stopped(self._folder)

    close = stop


def run_trial(folder: Path, limits: Limits) -> Generator[Event]:
    """Run, or go on with, the run of a folder and yield its events; closing the generator ends the trial."""
    seen = 0
    for attempt in range(limits.retries + 1):
        process, since = _launch(folder, limits), time.monotonic()
        heartbeat = since + HEARTBEAT
        error: str | None = None
        code: int | None = None
        try:
            while error is None and code is None:
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(LOOK)
                if code is None:
                    error = _exceeded(process, time.monotonic() - since, limits)
                # Scores of an earlier start count: interruptions must not change when a trial is stopped.
                scores = trials.scores(folder, limits.metric)
                for iteration in range(seen + 1, len(scores) + 1):
                    yield Event("score", iteration, scores[iteration - 1])
                seen = max(seen, len(scores))
                if time.monotonic() > heartbeat:
                    heartbeat = time.monotonic() + HEARTBEAT
                    yield Event("alive", seen)
        finally:
            _end(process, 0.0 if error else GRACE)
        if code == 0:
            now = trials.outcome(folder, limits.metric)
            yield Event("done", now.iteration, now.score)
            return
        error = error or _error(folder, code or 0)
        last = attempt == limits.retries
        trials.note_attempt(folder, error, last)
        yield Event("failed" if last else "retry", seen, error=error)


def _launch(folder: Path, limits: Limits) -> "subprocess.Popen[bytes]":
    source = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    if limits.threads:
        environment["OMP_NUM_THREADS"] = str(limits.threads)
    (folder / trial_process.ERROR).unlink(missing_ok=True)
    command = [sys.executable, "-m", trial_process.__name__, str(folder), str(limits.gpu)]
    with (folder / trial_process.LOG).open("ab") as log:
        # A session of its own: Ctrl-C at the terminal is for the sweep, which ends trials in order.
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def _end(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """End the process of a trial, if it runs; kill it and its children after some seconds."""
    assert process.stdin is not None
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
    process.stdin.close()


def _error(folder: Path, code: int) -> str:
    """Say why a trial ended: in its own words, or by its exit code, which is below 0 for a signal."""
    file = folder / trial_process.ERROR
    if code > 0 and file.is_file():
        return file.read_text(encoding="utf-8")
    killed = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
    return f"{killed}{hint}; see {folder / trial_process.LOG}"


def _exceeded(process: "subprocess.Popen[bytes]", seconds: float, limits: Limits) -> str | None:
    """Name the limit that the trial exceeds, if any."""
    minutes, memory = limits.minutes, limits.memory_gb
    if minutes is not None and seconds > 60 * minutes:
        return f"took longer than resources.minutes={minutes:g}"
    if memory is not None and _memory(process.pid) > memory * 2**30:
        return f"used more memory than resources.memory_gb={memory:g}"
    return None


def _memory(pid: int) -> int:
    """Return the bytes that a process and its children hold."""
    psutil: Any = require("psutil", "sweep")
    try:
        process = psutil.Process(pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0
