"""How far an attack is: a bar on a terminal, plain lines elsewhere; on stderr, so that results can be piped."""

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from ..runs.progress import clock

QUIET_SECONDS = 10.0


def say(text: str, speak: bool = True) -> None:
    """One line for the person."""
    if speak:
        with suppress(BrokenPipeError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


class Progress:
    """Counts examples. `speak=False` says nothing."""

    def __init__(self, title: str, total: int, done: int = 0, speak: bool = True) -> None:
        self.title, self.total, self.done, self.speak = title, total, done, speak
        self._first = done
        self._began = self._last = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        if self.speak and self._first:
            say(f"{self.title}: goes on after {self._first} of {self.total}")
        if self.speak and sys.stderr.isatty():
            self._open()
        return self

    def _open(self) -> None:
        with suppress(ImportError):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
            self._bar = Bar(*columns, TimeRemainingColumn(), transient=True, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, completed=self.done)

    def advance(self, count: int) -> None:
        self.done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif self.speak and time.perf_counter() - self._last > QUIET_SECONDS:
            self._last = time.perf_counter()
            say(f"{self.title}: {self.done}/{self.total} · ETA {self._left()}")

    def _left(self) -> str:
        since = time.perf_counter() - self._began
        return clock((self.total - self.done) * since / max(1, self.done - self._first))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
