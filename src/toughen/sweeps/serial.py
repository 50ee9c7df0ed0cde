"""The engine without Ray: one trial after the other, each in a process of its own."""

import signal
import threading
from pathlib import Path
from typing import Any, Protocol

from .controller import Controller
from .worker import Event, Limits, Worker

HEARTBEAT = 1.0  # seconds that a poll waits at most


class Runner(Protocol):
    """What runs trials: a Worker, or a substitute in tests."""

    def start(self, folder: Path) -> None: ...
    def poll(self, seconds: float) -> Event: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def limits_of(controller: Controller, gpu: float = 0.0, threads: int | None = None) -> Limits:
    """Collect the limits that the sweep file sets for a trial."""
    given = controller.definition
    wanted = given.resources
    return Limits(controller.metric, given.retries, wanted.minutes, wanted.memory_gb, gpu, threads)


def run_serially(controller: Controller, runner: Runner | None = None) -> None:
    """Run all remaining trials; Ctrl-C lets the running one save itself, then ends the sweep."""
    cpu = controller.definition.resources.cpu
    limits = limits_of(controller, threads=max(int(cpu), 1) if cpu else None)
    work = runner or Worker(limits)
    before = _on_term(_interrupt)
    try:
        while (trial := controller.next_trial()) is not None:
            if trial == "wait":  # for a running trial; there is none
                raise AssertionError("a serial sweep waits for itself")
            work.start(trial.folder)
            while True:
                event = work.poll(HEARTBEAT)
                if controller.on_event(trial, event):
                    work.stop()
                    break
                if event.is_end:
                    break
    finally:
        work.close()
        _on_term(before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _on_term(handler: Any) -> Any:
    """Handle SIGTERM, which a preempted machine sends, as Ctrl-C; return the handler before."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)
