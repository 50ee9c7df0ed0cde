"""What can go wrong with a sweep; each is told in one line."""

from pathlib import Path
from shlex import quote


class SweepError(ValueError):
    """A sweep that cannot start or go on as asked; nothing was overwritten."""


class SweepStopped(RuntimeError):
    """A sweep was asked to stop; what has ended is kept, what ran has saved itself where it could."""

    def __init__(self, folder: Path, words: str) -> None:
        super().__init__(f"{words}; continue with: toughen sweep {quote(str(folder))} --resume")
        self.folder = folder
