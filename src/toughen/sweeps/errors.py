"""The errors of a sweep; each message is one line."""

from pathlib import Path
from shlex import quote


class SweepError(ValueError):
    """A sweep cannot start or go on; nothing was overwritten."""


class SweepStopped(RuntimeError):
    """A sweep was asked to stop; finished trials are kept, running ones saved a checkpoint if they could."""

    def __init__(self, folder: Path, message: str) -> None:
        super().__init__(f"{message}; continue with: toughen sweep {quote(str(folder))} --resume")
        self.folder = folder
