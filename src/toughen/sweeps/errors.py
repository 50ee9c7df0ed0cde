"""The errors of a sweep; each message is one line."""

from pathlib import Path
from shlex import quote


class SweepError(ValueError):
    """A sweep cannot start or go on; nothing was overwritten.

    Examples:
        >>> try:
        ...     toughen.sweep({"base": "missing.yaml", "parameters": {"seed": {"values": [1]}}})
        ... except toughen.sweeps.SweepError as error:
        ...     print(type(error).__name__)
        SweepError
    """


class SweepStopped(RuntimeError):
    """A sweep was asked to stop; finished trials are kept, running ones saved a checkpoint if they could.

    Args:
        folder: The folder of the sweep.
        message: Why it stopped.

    Examples:
        >>> from pathlib import Path
        >>> print(toughen.sweeps.SweepStopped(Path("rates"), "stopped"))
        stopped; continue with: toughen sweep rates --resume
    """

    def __init__(self, folder: Path, message: str) -> None:
        super().__init__(f"{message}; continue with: toughen sweep {quote(str(folder))} --resume")
        self.folder = folder
