"""What a person sees of a sweep: a live table on a terminal, plain lines elsewhere; all lines go to sweep.log too."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runs.progress import clock, tell
from .definition import format_settings
from .leaderboard import Row
from .trials import Outcome, Trial

SHOWN = 16  # running trials in the live table
REFRESH = 0.5  # seconds between two pictures


@dataclass(frozen=True)
class Status:
    """Counts of trials, those that run with their last score, the best row so far, and the seconds left."""

    total: int
    done: int
    stopped: int
    failed: int
    running: Sequence[tuple[str, str]]
    best: Row | None
    eta: float | None

    def __str__(self) -> str:
        over = self.done + self.stopped + self.failed
        parts = [f"{over}/{self.total} trials", f"running {len(self.running)}", f"failed {self.failed}"]
        parts += [f"stopped early {self.stopped}"] if self.stopped else []
        parts += [f"best {self.best}"] if self.best is not None else []
        return " · ".join([*parts, f"ETA {clock(self.eta)}"])


class SweepProgress:
    """Tells how a sweep goes; use as a context, so that the terminal is left as it was."""

    def __init__(self, log: Path, live: bool | None = None) -> None:
        self.log, self._live = log, None
        self._wanted = sys.stdout.isatty() if live is None else live
        self._last = 0.0

    def __enter__(self) -> "SweepProgress":
        if self._wanted:
            with suppress(ImportError):
                from rich.live import Live

                self._live = Live(auto_refresh=False, transient=True)
                self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self, text: str) -> None:
        """One line for the person and the log."""
        tell(text, self.log, self._live)

    def started(self, trial: Trial, status: Status) -> None:
        """A trial begins; the live table shows it by itself."""
        if self._live is None:
            self.line(f"{trial.name}: started ({format_settings(trial.settings)})")
        self.show(status)

    def ended(self, trial: Trial, now: Outcome, said: str, status: Status) -> None:
        """A trial is over."""
        mark = "! " if now.state == "failed" else ""
        self.line(f"{mark}{trial.name}: {said}")
        if self._live is None:
            self.line(f"  {status}")
        self._last = 0.0
        self.show(status)

    def show(self, status: Status) -> None:
        """The live table, now and then."""
        if self._live is not None and time.monotonic() - self._last > REFRESH:
            self._last = time.monotonic()
            self._live.update(render_table(status), refresh=True)


def render_table(status: Status) -> Any:
    """The live table: counts and the best above, the running trials below. Names are text, never markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, words in status.running[:SHOWN]:
        made.add_row(Text(name), Text(words or "starting"))
    hidden = len(status.running) - SHOWN
    if hidden > 0:
        made.add_row(Text("..."), Text(f"{hidden} more"))
    return Group(Text(str(status)), made)
