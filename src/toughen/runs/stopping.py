"""Ctrl-C and SIGTERM as a wish to stop: the step is finished, everything is saved."""

import signal
import threading
from types import FrameType
from typing import Any

AGREE_EVERY = 10  # updates between two questions to the other processes


class Stop:
    """Knows whether a signal came. A second one ends the process at once, as it would without us.

    A `patient` one does not: torchrun sends a second signal of its own accord, and kills after half a minute.
    """

    def __init__(self, patient: bool = False) -> None:
        self.signal, self.patient = 0, patient
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.patient:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def wanted(self, step: int) -> bool:
        """Whether to stop after this step; several processes agree on it every few steps."""
        import torch

        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return bool(self.signal)
        if step % AGREE_EVERY:
            return False
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor(self.signal, device=device)
        torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
        self.signal = int(told)
        return bool(self.signal)
