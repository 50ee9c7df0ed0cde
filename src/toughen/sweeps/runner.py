"""The loop of a sweep: a thread for each worker runs one trial after the other, here or on a Ray cluster."""

import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from .controller import Controller
from .worker import Event

IDLE = 0.5  # seconds between two looks of an idle worker for another trial


class Runner(Protocol):
    """Runs one trial at a time: a Worker, one in a Ray actor, or a substitute in tests."""

    def start(self, folder: Path) -> None: ...
    def poll(self) -> Event: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def run_trials(controller: Controller, make_worker: Callable[[], Runner], slots: int = 1) -> None:
    """Run all remaining trials, `slots` at once; after Ctrl-C the running ones save themselves, then the sweep ends."""
    stopping = threading.Event()
    slots = max(1, min(slots, controller.status().total))
    with _interrupt_on_sigterm(), ThreadPoolExecutor(slots) as pool:
        try:
            for done in as_completed([pool.submit(_work, controller, make_worker(), stopping) for _ in range(slots)]):
                done.result()
        finally:
            stopping.set()


def _work(controller: Controller, worker: Runner, stopping: threading.Event) -> None:
    try:
        while not stopping.is_set():
            trial = controller.next_trial()
            if trial is not None:
                worker.start(trial.folder)
                while not stopping.is_set():
                    event = worker.poll()
                    if controller.on_event(trial, event):
                        worker.stop()
                        break
                    if event.is_end:
                        break
            elif controller.is_complete:
                return
            else:  # a running trial may bring more, or need the machine that this worker holds
                worker.close()
                stopping.wait(IDLE)
    finally:
        worker.close()


@contextmanager
def _interrupt_on_sigterm() -> Generator[None]:
    """Handle SIGTERM, which a preempted machine sends, as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
