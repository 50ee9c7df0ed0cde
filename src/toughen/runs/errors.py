"""Errors of runs; the message of each is one line."""

from pathlib import Path

from ..errors import UsageError


class RunError(UsageError):
    """A run that cannot start or go on as asked; nothing was overwritten."""


class Diverged(RuntimeError):
    """The loss is not a number any more; says since which step, in which part, and which option to change."""


class Interrupted(RuntimeError):
    """Training was asked to stop; everything up to `step` is saved in `folder`."""

    def __init__(self, folder: Path, step: int, signal: int) -> None:
        saved = f"stopped at step {step}; saved {folder}/checkpoint-{step}" if step else "stopped between two seeds"
        super().__init__(saved)
        self.folder, self.step, self.signal = folder, step, signal


class RestartWithSmallerBatch(RuntimeError):
    """One of several processes ran out of memory; all of them start again with smaller passes."""
