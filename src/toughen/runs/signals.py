"""Stops a run after its step on Ctrl-C, SIGTERM or a closed terminal, with everything saved."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from .folder import RunFolder

AGREE_EVERY = 10  # updates between two questions to the other processes
BY_PERSON = (signal.SIGINT, signal.SIGTERM)  # a closed terminal gives a SIGHUP from the shell and one from the system
MESSAGE = b"toughen: stopping after this step, and saving; once more ends at once\n"


def handled_signals() -> list[signal.Signals]:
    """Those to listen to: not SIGHUP where it is ignored, as nohup does for a run that outlives its terminal."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return [*BY_PERSON]
    return [*BY_PERSON, hangup]


def announce() -> None:
    """Tell the person that the run will stop; a closed terminal cannot be written to."""
    with suppress(OSError):
        os.write(2, MESSAGE)


def request_stop(run: RunFolder, number: int) -> None:
    """Ask the processes of a run to stop: torchrun would kill them 30 s after a signal."""
    run.stop_file.write_text(str(number), encoding="utf-8")


class GracefulStop:
    """Knows whether a signal came. A second one ends the process at once, as it would without us.

    One of several processes (`shared`) does not end at a second: torchrun sends one of its own accord.
    """

    def __init__(self, run: RunFolder, shared: bool = False) -> None:
        self.signal, self.run, self.shared = 0, run, shared
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "GracefulStop":
        if threading.current_thread() is threading.main_thread():
            for number in handled_signals():
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.shared and number in BY_PERSON:
            announce()
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def requested(self, step: int) -> bool:
        """Whether to stop after this step; several processes agree on it every few steps."""
        if not self.shared:
            return bool(self.signal)
        if step % AGREE_EVERY:
            return False
        import torch

        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor(self.signal or self._asked(), device=device)
        torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
        self.signal = int(told)
        return bool(self.signal)

    def _asked(self) -> int:
        with suppress(OSError, ValueError):
            return int(self.run.stop_file.read_text(encoding="utf-8"))
        return 0
