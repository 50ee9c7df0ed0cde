"""A nursery seen from outside, and the trial it runs: scores as they come, limits, attempts."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import require
from . import nursery, trials
from .errors import SweepError

GRACE = 20.0  # seconds a trial has to save itself before it is killed
LOOK = 0.2  # seconds between two looks at a trial
START = 300.0  # seconds the imports may take, on the slowest of disks


@dataclass(frozen=True)
class Limits:
    """What a trial is held to, and how often it is tried."""

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
    """Runs trials one after the other in a child each."""

    def __init__(self, limits: Limits, log: Path) -> None:
        self.limits, self.log = limits, log
        self.folder, self.child = Path(), 0
        self._events: deque[Event] = deque()
        self._seen = self._attempt = 0
        self._since = 0.0
        self._spawn()

    def _spawn(self) -> None:
        source = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
        environment["OPENBLAS_NUM_THREADS"] = "1"  # its threads start with numpy, and none may be there at the fork
        if self.limits.threads:
            environment["OMP_NUM_THREADS"] = str(self.limits.threads)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "toughen.sweeps.nursery"]
        with self.log.open("ab") as errors:
            # A session of its own: Ctrl-C at the terminal is for the driver, which ends trials in order.
            self.process = subprocess.Popen(command, env=environment, stderr=errors, start_new_session=True, **pipes)
        self._ready = False
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._listener = threading.Thread(target=_listen, args=(self.process.stdout, self._answers), daemon=True)
        self._listener.start()

    def start(self, folder: Path) -> None:
        """Begin, or go on with, the run of a folder."""
        self.folder, self._attempt, self._seen = folder, 1, 0
        self._events.clear()
        self._look()  # scores of an earlier start count: when a trial is stopped must not depend on interruptions
        self._order()

    def _order(self) -> None:
        if self.process.poll() is not None:
            self._bury()
            self._spawn()
        if not self._ready:
            self._expect("ready", START)
            self._ready = True
        assert self.process.stdin is not None
        order: Mapping[str, Any] = {"folder": str(self.folder), "gpu": self.limits.gpu}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self.child = int(self._expect("pid", GRACE)["pid"])
        self._since = time.monotonic()

    def _expect(self, key: str, seconds: float) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            answer = None
        if answer is None or key not in answer:
            self.close()
            raise SweepError(f"the process that trials start from does not answer; see {self.log}.")
        return answer

    def poll(self, seconds: float) -> Event:
        """The next thing that happens, or `alive` after so many seconds without."""
        until = time.monotonic() + seconds
        while True:
            if self._events:
                return self._events.popleft()
            try:
                answer = self._answers.get(timeout=min(LOOK, max(until - time.monotonic(), 0.01)))
            except queue.Empty:
                answer = {}
            if answer is None:
                self._bury()  # the nursery is gone, and its child with it
                self._spawn()
                answer = {"ended": -signal.SIGKILL}
            self._look()
            if "ended" in answer:
                self.child = 0
                self._end(int(answer["ended"]))
            elif (over := self._over()) and self.child:
                self._kill(signal.SIGKILL)
                self._expect("ended", GRACE)
                self.child = 0
                self._look()
                self._again(over)
            elif time.monotonic() >= until and not self._events:
                return Event("alive", self._seen)

    def _look(self) -> None:
        found = trials.scores(self.folder, self.limits.metric)
        for place in range(self._seen, len(found)):
            self._events.append(Event("score", place + 1, found[place]))
        self._seen = max(self._seen, len(found))

    def _end(self, code: int) -> None:
        if code == 0:
            now = trials.outcome(self.folder, self.limits.metric)
            self._events.append(Event("done", now.iteration, now.score))
            return
        file = self.folder / nursery.ERROR
        said = file.read_text(encoding="utf-8") if code > 0 and file.is_file() else ""
        killed = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
        self._again(said or f"{killed}{hint}; see {self.folder / nursery.LOG}")

    def _again(self, error: str) -> None:
        last = self._attempt > self.limits.retries
        trials.note_attempt(self.folder, error, last)
        if last:
            self._events.append(Event("failed", self._seen, error=error))
            return
        self._attempt += 1
        self._events.append(Event("retry", self._seen, error=error))
        self._order()

    def _over(self) -> str:
        """Which limit the trial is over, in words."""
        minutes, memory = self.limits.minutes, self.limits.memory_gb
        if minutes is not None and time.monotonic() - self._since > 60 * minutes:
            return f"took longer than resources.minutes={minutes:g}"
        if memory is not None and self.child and _memory(self.child) > memory * 2**30:
            return f"used more memory than resources.memory_gb={memory:g}"
        return ""

    def stop(self) -> None:
        """End the trial: it saves a checkpoint if it can, within a time."""
        if self.child:
            self._kill(signal.SIGTERM)
            try:
                self._answers.get(timeout=GRACE)
            except queue.Empty:
                self._kill(signal.SIGKILL)
                with suppress(queue.Empty):
                    self._answers.get(timeout=GRACE)
            self.child = 0
        if self.folder.name:
            trials.clear_stopped(self.folder)

    def _kill(self, number: int) -> None:
        for kill in (os.kill, os.killpg):  # in its first moment it has no group yet
            with suppress(ProcessLookupError):
                kill(self.child, number)

    def close(self) -> None:
        """End the trial and the nursery."""
        if self.process.poll() is None:
            self.stop()
            if not self._ready:
                self.process.kill()  # it still imports, for seconds, and no trial was ordered
        self._bury()

    def _bury(self) -> None:
        """Close what the nursery reads from, and wait for its end and that of its answers."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join(GRACE)


def _listen(answers: Any, into: "queue.Queue[dict[str, Any] | None]") -> None:
    with answers:
        for line in answers:
            into.put(json.loads(line))
    into.put(None)


def _memory(pid: int) -> int:
    """Bytes a process and its children hold."""
    psutil: Any = require("psutil", "sweep")
    try:
        process = psutil.Process(pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0
