"""The progress of a sweep, on the terminal and in sweep.log."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runs.progress import format_duration, write_line
from .definition import format_settings
from .leaderboard import Row
from .trials import Outcome, Trial

MAX_SHOWN = 16  # running trials on a terminal


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

    @property
    def ended(self) -> int:
        return self.done + self.stopped + self.failed

    def __str__(self) -> str:
        parts = [f"{self.ended}/{self.total} trials", f"running {len(self.running)}", f"failed {self.failed}"]
        parts += [f"stopped early {self.stopped}"] if self.stopped else []
        parts += [f"best {self.best}"] if self.best is not None else []
        return " · ".join([*parts, f"ETA {format_duration(self.eta)}"])


class SweepProgress:
    """Shows the status live on a terminal, plain lines elsewhere, and logs every line. A context that cleans up."""

    def __init__(self, log: Path, live: bool | None = None) -> None:
        self.log, self._live = log, None
        if sys.stdout.isatty() if live is None else live:
            with suppress(ImportError):
                from rich.live import Live

                self._live = Live(refresh_per_second=2, transient=True)

    def __enter__(self) -> "SweepProgress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def line(self, text: str) -> None:
        """Print and log one line."""
        write_line(text, self.log, self._live)

    def started(self, trial: Trial, status: Status) -> None:
        """Show that a trial begins; a live status has it anyway."""
        if self._live is None:
            self.line(f"{trial.name}: started ({format_settings(trial.settings)})")
        self.show(status)

    def ended(self, trial: Trial, outcome: Outcome, message: str, status: Status) -> None:
        """Show how a trial ended."""
        self.line(f"{'! ' if outcome.state == 'failed' else ''}{trial.name}: {message}")
        if self._live is None:
            self.line(f"  {status}")
        self.show(status)

    def show(self, status: Status) -> None:
        """Update the live status, if there is one."""
        if self._live is not None:
            self._live.update(render(status))


def render(status: Status) -> Any:
    """Render the counts and the best row, and the running trials below. Names are text, never markup."""
    from rich.text import Text

    lines = [f"{name}  {score or 'starting'}" for name, score in status.running]
    hidden = len(lines) - MAX_SHOWN
    return Text("\n".join([str(status), *lines[:MAX_SHOWN], *([f"...  {hidden} more"] if hidden > 0 else [])]))
