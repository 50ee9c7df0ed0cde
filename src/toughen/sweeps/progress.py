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

SHOWN = 16  # running trials in the live table


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
        return " · ".join([*parts, f"ETA {format_duration(self.eta)}"])


class SweepProgress:
    """Shows a live table on a terminal, plain lines elsewhere, and logs every line. A context that cleans up."""

    def __init__(self, log: Path, live: bool | None = None) -> None:
        self.log, self._live = log, None
        self._wanted = sys.stdout.isatty() if live is None else live

    def __enter__(self) -> "SweepProgress":
        if self._wanted:
            with suppress(ImportError):
                from rich.live import Live

                self._live = Live(refresh_per_second=2, transient=True)
                self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self, text: str) -> None:
        """Print and log one line."""
        write_line(text, self.log, self._live)

    def started(self, trial: Trial, status: Status) -> None:
        """Show that a trial begins; the live table has it anyway."""
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
        """Update the live table, if there is one."""
        if self._live is not None:
            self._live.update(render_table(status))


def render_table(status: Status) -> Any:
    """Render the counts and the best row, and the running trials below. Names are text, never markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, score in status.running[:SHOWN]:
        table.add_row(Text(name), Text(score or "starting"))
    if len(status.running) > SHOWN:
        table.add_row(Text("..."), Text(f"{len(status.running) - SHOWN} more"))
    return Group(Text(str(status)), table)
