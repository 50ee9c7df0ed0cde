"""What can go wrong with a run; each is told in one line."""

from pathlib import Path


class RunError(ValueError):
    """A run that cannot start or go on as asked; nothing was overwritten."""


class Diverged(RuntimeError):
    """The loss is not a number any more; says since which step, in which part, and which option to change."""


class Interrupted(RuntimeError):
    """Training was asked to stop; everything up to `step` is saved in `folder`."""

    def __init__(self, folder: Path, step: int, signal: int) -> None:
        super().__init__(f"stopped at step {step}; saved {folder}/checkpoint-{step}")
        self.folder, self.step, self.signal = folder, step, signal
