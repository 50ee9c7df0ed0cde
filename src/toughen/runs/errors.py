"""Errors of runs; the message of each is one line."""

from pathlib import Path

from ..errors import UsageError


class RunError(UsageError):
    """A run that cannot start or go on as asked; nothing was overwritten.

    Examples:
        >>> try:
        ...     toughen.train("fgm", model="missing", task="rte", data={"max_length": 0})
        ... except toughen.runs.RunError as error:
        ...     print(error)
        data.max_length=0: it must be at least 1.
    """


class Diverged(RuntimeError):
    """The loss is NaN or infinite; the message names the step, the part and the option to change.

    Examples:
        >>> try:
        ...     toughen.resume(run)
        ... except toughen.runs.Diverged as error:
        ...     print(error)
    """


class Interrupted(RuntimeError):
    """Training was asked to stop; everything up to `step` is saved in `folder`.

    Args:
        folder: The folder of the seed.
        step: The update at which it was saved; 0 between two seeds.
        signal: The signal that asked for the stop.

    Examples:
        >>> from pathlib import Path
        >>> print(toughen.runs.Interrupted(Path("runs/rte"), step=20, signal=2))
        stopped at step 20; saved runs/rte/checkpoint-20
    """

    def __init__(self, folder: Path, step: int, signal: int) -> None:
        saved = f"stopped at step {step}; saved {folder}/checkpoint-{step}" if step else "stopped between two seeds"
        super().__init__(saved)
        self.folder, self.step, self.signal = folder, step, signal


class RestartWithSmallerBatch(RuntimeError):
    """One of several processes ran out of memory; all of them start again with smaller passes."""
