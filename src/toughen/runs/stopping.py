"""Ctrl-C, SIGTERM and a closed terminal as a wish to stop: the step is finished, everything is saved."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from .folder import RunFolder

AGREE_EVERY = 10  # updates between two questions to the other processes
ASKED = (signal.SIGINT, signal.SIGTERM)  # by a person; of a closed terminal the shell and the system send a SIGHUP each
TOLD = b"toughen: stopping after this step, and saving; once more ends at once\n"


def signals() -> list[signal.Signals]:
    """Those to listen to: not SIGHUP where it is ignored, as nohup does for a run that outlives its terminal."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return [*ASKED]
    return [*ASKED, hangup]


def say_so() -> None:
    """Tell the person that the run will stop; a closed terminal cannot be written to."""
    with suppress(OSError):
        os.write(2, TOLD)


def ask(run: RunFolder, number: int) -> None:
    """Ask the processes of a run to stop: torchrun would kill them 30 s after a signal."""
    run.stop_file.write_text(str(number), encoding="utf-8")


class Stop:
    """Knows whether a signal came. A second one ends the process at once, as it would without us.

    One of several processes (`shared`) does not end at a second: torchrun sends one of its own accord.
    """

    def __init__(self, run: RunFolder, shared: bool = False) -> None:
        self.signal, self.run, self.shared = 0, run, shared
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in signals():
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.shared and number in ASKED:
            say_so()
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def wanted(self, step: int) -> bool:
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
